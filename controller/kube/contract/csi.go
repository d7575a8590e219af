package contract

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// CSIModes are the access modes of claims that get CSI PVs. The scheduler and the
// kubelet enforce ReadWriteOncePod.
var CSIModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}

// DefaultFSType is the fsType of CSI PVs whose class names none. Nothing is
// formatted; the kubelet applies a pod's fsGroup only to a PV with an fsType.
const DefaultFSType = "xfs"

// CSIPV returns the CSI PV of the volume whose directory is named handle, in the pool of that name.
// The driver is the class's provisioner, and the capacity is the claim's request. The caller adds
// the claimRef and the annotation AnnProvisionedBy, and has validated the class's parameters.
func CSIPV(name, handle, pool string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass,
	at Place, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	p, _ := CSIClass.Parse(c.Parameters)
	pv := newPV(name, claim, at, policy)
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{
			Driver:           c.Provisioner,
			VolumeHandle:     handle,
			FSType:           p.FSType,
			VolumeAttributes: map[string]string{StoragePool: pool},
		},
	}
	pv.Spec.MountOptions = c.MountOptions
	pv.Spec.NodeAffinity = affinity(TopologyNode, at.Node)
	return pv
}
