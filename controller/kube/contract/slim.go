package contract

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxNameBytes is the length in bytes of the longest name that a class, a Node or a PV can have.
const maxNameBytes = 253

// claimAnnotations are the annotations of claims that the agent or the provisioner library reads.
var claimAnnotations = []string{
	AnnProvisionOnNode, AnnSelectedNode, AnnStorageProvisioner, AnnMigrated, annVolumeType,
	corev1.BetaStorageClassAnnotation,
	"volume.beta.kubernetes.io/storage-provisioner", "volume.alpha.kubernetes.io/selected-node", // of the library
}

// ResizeConditions are the conditions of claims about resizing.
var ResizeConditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimResizing,
	corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimControllerResizeError,
	corev1.PersistentVolumeClaimNodeResizeError,
}

// Slim returns a copy of a claim with only the fields that the agent and the provisioner library
// read, and without repeated access modes. Any user can create claims that an agent keeps in
// memory, so each field of the copy has a bounded length. It is never written back.
func Slim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		TypeMeta: claim.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			CreationTimestamp: claim.CreationTimestamp, DeletionTimestamp: claim.DeletionTimestamp,
			Annotations: slimAnnotations(claim.Annotations),
		},
		Spec:   slimSpec(&claim.Spec),
		Status: slimStatus(&claim.Status),
	}
}

func slimAnnotations(all map[string]string) (kept map[string]string) {
	for _, key := range claimAnnotations {
		if value, ok := all[key]; ok {
			kept = with(kept, key, Bounded(value))
		}
	}
	return kept
}

func slimSpec(s *corev1.PersistentVolumeClaimSpec) corev1.PersistentVolumeClaimSpec {
	kept := corev1.PersistentVolumeClaimSpec{
		StorageClassName:          boundedPointer(s.StorageClassName),
		VolumeAttributesClassName: boundedPointer(s.VolumeAttributesClassName),
		VolumeName:                Bounded(s.VolumeName), VolumeMode: boundedPointer(s.VolumeMode),
	}
	kept.Resources.Requests = onlyStorage(s.Resources.Requests)
	for _, mode := range s.AccessModes {
		if !slices.Contains(kept.AccessModes, mode) && len(kept.AccessModes) < 8 { // Kubernetes has four
			kept.AccessModes = append(kept.AccessModes, Bounded(mode))
		}
	}
	if s.Selector != nil {
		kept.Selector = &metav1.LabelSelector{} // only its presence is read
	}
	if from := s.DataSource; from != nil {
		kept.DataSource = &corev1.TypedLocalObjectReference{APIGroup: boundedPointer(from.APIGroup), Kind: Bounded(from.Kind),
			Name: Bounded(from.Name)}
	}
	if from := s.DataSourceRef; from != nil {
		kept.DataSourceRef = &corev1.TypedObjectReference{APIGroup: boundedPointer(from.APIGroup), Kind: Bounded(from.Kind),
			Name: Bounded(from.Name), Namespace: boundedPointer(from.Namespace)}
	}
	return kept
}

func slimStatus(s *corev1.PersistentVolumeClaimStatus) corev1.PersistentVolumeClaimStatus {
	kept := corev1.PersistentVolumeClaimStatus{Phase: Bounded(s.Phase), Capacity: onlyStorage(s.Capacity),
		AllocatedResources: onlyStorage(s.AllocatedResources)}
	if state, ok := s.AllocatedResourceStatuses[corev1.ResourceStorage]; ok {
		kept.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: Bounded(state)}
	}
	for _, t := range ResizeConditions {
		if slices.ContainsFunc(s.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == t }) {
			kept.Conditions = append(kept.Conditions, corev1.PersistentVolumeClaimCondition{Type: t})
		}
	}
	return kept
}

// onlyStorage returns the storage of a list, nil if it has none.
func onlyStorage(all corev1.ResourceList) corev1.ResourceList {
	if storage, ok := all[corev1.ResourceStorage]; ok {
		return corev1.ResourceList{corev1.ResourceStorage: storage.DeepCopy()}
	}
	return nil
}

// Bounded returns the name of an object, cut if it is longer than any name. The cut name is not
// valid for any object.
func Bounded[S ~string](name S) S {
	if len(name) <= maxNameBytes {
		return name
	}
	return S(strings.Clone(string(name[:maxNameBytes])) + "…")
}

func boundedPointer[S ~string](name *S) *S {
	if name == nil {
		return nil
	}
	return new(Bounded(*name))
}
