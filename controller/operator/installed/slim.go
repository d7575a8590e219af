package installed

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/share"
)

// maxShared is how many values of a kind PVs share: those of a thousand nodes with several pools each.
const maxShared = 16 << 10

// SlimPVs makes of PVs what the operator's cache keeps: the PVs of all drivers are cached. Who reads the
// cache must not change it, because PVs share parts. Methods may be called from many goroutines.
type SlimPVs struct{ sharer share.Sharer }

// NewSlimPVs returns one that has seen no PV.
func NewSlimPVs() *SlimPVs { return &SlimPVs{share.Sharer{Most: maxShared}} }

// pvAnnotations and pvLabels are those of PVs that the operator and package identity read.
var (
	pvAnnotations = []string{
		contract.AnnProvisionedBy, contract.AnnProvisionOnNode, contract.AnnPool, contract.AnnNodeUID,
		contract.AnnCluster, contract.AnnMissing, contract.AnnPolicy, contract.AnnFormerPolicy, contract.AnnGivenUp,
		contract.AnnPoolPolicy, contract.AnnHeldPool, contract.AnnBoundByController,
	}
	pvLabels = []string{contract.LabelNode, contract.LabelDisk, contract.LabelDiskOlder}
)

// Slim returns a copy of a PV with the fields that parts of the operator read from the cache, and all
// that package identity reads. Of a CSI PV of another driver, which no rule of that package is about,
// it leaves out attributes and affinity. The copy is no basis for an update: a patch of it names what
// it changes.
func (s *SlimPVs) Slim(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	kept := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: pv.Name, UID: pv.UID, ResourceVersion: pv.ResourceVersion, CreationTimestamp: pv.CreationTimestamp,
			DeletionTimestamp: pv.DeletionTimestamp, OwnerReferences: pv.OwnerReferences,
			Labels: only(pv.Labels, pvLabels), Annotations: only(pv.Annotations, pvAnnotations),
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              pv.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: pv.Spec.PersistentVolumeReclaimPolicy,
		},
		Status: corev1.PersistentVolumeStatus{Phase: pv.Status.Phase},
	}
	if ref := pv.Spec.ClaimRef; ref != nil {
		kept.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
	}
	if at := pv.Spec.HostPath; at != nil {
		kept.Spec.HostPath = &corev1.HostPathVolumeSource{Path: at.Path}
	}
	if at := pv.Spec.Local; at != nil {
		kept.Spec.Local = &corev1.LocalVolumeSource{Path: at.Path}
	}
	if csi := pv.Spec.CSI; csi != nil {
		kept.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver}
		if identity.Provisioned(pv) {
			kept.Spec.CSI.VolumeAttributes = only(csi.VolumeAttributes, []string{contract.StoragePool})
		}
	}
	if directory := pv.Spec.HostPath != nil || pv.Spec.Local != nil; directory || identity.Provisioned(pv) {
		kept.Spec.NodeAffinity = pv.Spec.NodeAffinity
	}
	s.sharer.PV(kept)
	return kept
}

// only returns the entries of a map with these names, nil if there are none.
func only(all map[string]string, names []string) (kept map[string]string) {
	for _, name := range names {
		if value, ok := all[name]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = value
		}
	}
	return kept
}
