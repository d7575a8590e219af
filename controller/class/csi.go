package class

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// CSIModes are the access modes of claims that get CSI PVs. The kubelet keeps
// a ReadWriteOncePod volume to one pod of the cluster.
var CSIModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}

// DefaultFSType is the type of PVs whose class names none.
const DefaultFSType = "xfs"

// CSIPV returns the CSI PV of a volume: handle is its directory's name, pool
// the pool's. The driver is the class's provisioner. Its capacity is the
// claim's request. The caller adds the claimRef and the provisioner's
// annotation.
//
// There is no volume attribute storage.kubernetes.io/csiProvisionerIdentity:
// it says which process of a provisioner made the PV, and nobody reads it.
func CSIPV(name, handle, pool string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass,
	at Place, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	p, _ := CSIClass.Parse(c.Parameters) // the class was checked before
	pv := newPV(name, claim, c, at, policy)
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
