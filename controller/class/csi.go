package class

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// CSIModes are the access modes of claims that get CSI PVs. The kubelet keeps
// a ReadWriteOncePod volume to one pod of the cluster.
var CSIModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}

// FSType is the class parameter for the filesystem type of CSI PVs. Nothing is
// formatted; a PV that has a type gets its pod's fsGroup.
const FSType = KubernetesPrefix + "fstype"

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
	pv := newPV(name, claim, c, at, policy)
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{
			Driver:           c.Provisioner,
			VolumeHandle:     handle,
			FSType:           cmp.Or(c.Parameters[FSType], DefaultFSType),
			VolumeAttributes: map[string]string{StoragePool: pool},
		},
	}
	pv.Spec.MountOptions = c.MountOptions
	pv.Spec.NodeAffinity = affinity(TopologyNode, at.Node)
	return pv
}

// CheckParameters returns nil where all parameters of a CSI class are such as
// somebody heeds: a misspelt one must not pass for one that is honoured, nor
// may a secret be left unread.
func CheckParameters(c *storagev1.StorageClass) error {
	known := []string{StoragePool, FSType, LimitParameter, InodesParameter}
	if unknown := UnknownKeys(c.Parameters, known, ""); len(unknown) > 0 {
		return fmt.Errorf("class %q has parameters that are not known: %q; known are %q; "+
			"a class cannot be edited: delete it and make it anew without them", c.Name, unknown, known)
	}
	return CheckLimits(c)
}
