package class

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Of returns the name of the claim's class, "" where it has none. The beta
// annotation wins, as it does everywhere in Kubernetes.
func Of(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// Delayed reports whether the class binds on first use (WaitForFirstConsumer).
func Delayed(c *storagev1.StorageClass) bool {
	return c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// Bytes returns the size that the claim asks for.
func Bytes(claim *corev1.PersistentVolumeClaim) int64 {
	return claim.Spec.Resources.Requests.Storage().Value()
}

// NamesNode reports whether the claim itself, not the scheduler, names the node.
func NamesNode(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[AnnProvisionOnNode] != ""
}

// PVName returns the name of the PV that answers a claim, as the provisioner
// library gives it.
func PVName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// CheckOffered returns nil where a directory on one node can be what the claim
// asks for, in one of the access modes offered. The error names what was asked
// and what is offered; no retry changes the answer.
func CheckOffered(claim *corev1.PersistentVolumeClaim, offered []corev1.PersistentVolumeAccessMode) error {
	if mode := claim.Spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		return fmt.Errorf("volumeMode %s is not offered: volumes are directories; ask for volumeMode Filesystem", *mode)
	}
	if i := slices.IndexFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(offered, m)
	}); i >= 0 {
		return fmt.Errorf("access mode %s is not offered: a volume of class %q is a directory on one node; ask for %s",
			claim.Spec.AccessModes[i], Of(claim), orList(offered))
	}
	// The PV would carry none, and so never be bound.
	if name := claim.Spec.VolumeAttributesClassName; name != nil && *name != "" {
		return fmt.Errorf("volumeAttributesClassName %q is not offered: a directory has no attributes to choose; "+
			"make the claim anew without it", *name)
	}
	if claim.Spec.Selector != nil {
		return fmt.Errorf("a selector is not offered: it can only match volumes that exist already; " +
			"remove spec.selector, or name an existing PV in spec.volumeName")
	}
	if s := source(claim); s != nil {
		return fmt.Errorf("dataSource %s %q is not offered: new volumes are empty; remove spec.dataSource and copy the data in", s.Kind, s.Name)
	}
	return nil
}

// ownSources are the kinds of data sources that a provisioner is asked for, by
// group. All other kinds are those of volume populators.
var ownSources = map[string]string{"": "PersistentVolumeClaim", "snapshot.storage.k8s.io": "VolumeSnapshot"}

// Populated reports whether a populator fills the claim's volume: the claim's data
// source is of a kind that is not Kubernetes' own. Provisioners leave such a claim
// alone. The populator has a volume made for a claim of its own, fills it, and binds
// its PV to this claim.
func Populated(claim *corev1.PersistentVolumeClaim) bool {
	s := source(claim)
	return s != nil && ownSources[group(s)] != s.Kind
}

// source returns the claim's data source, nil if it has none. dataSourceRef holds
// any kind; the API server copies the older field into it.
func source(claim *corev1.PersistentVolumeClaim) *corev1.TypedObjectReference {
	if s := claim.Spec.DataSourceRef; s != nil {
		return s
	}
	if s := claim.Spec.DataSource; s != nil {
		return &corev1.TypedObjectReference{APIGroup: s.APIGroup, Kind: s.Kind, Name: s.Name}
	}
	return nil
}

func group(s *corev1.TypedObjectReference) string {
	if s.APIGroup == nil {
		return ""
	}
	return *s.APIGroup
}

// orList joins the modes as a sentence does.
func orList(modes []corev1.PersistentVolumeAccessMode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = string(m)
	}
	return strings.Join(words, " or ")
}
