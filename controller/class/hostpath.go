package class

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// HostPathModes are the access modes of claims that get hostPath PVs.
var HostPathModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}

// CheckHostPath returns nil if the agent can serve claims of a hostPath class. It
// refuses mount options, because the kubelet starts no pod whose hostPath volume
// has any ("mount options are not supported for this volume type").
func CheckHostPath(c *storagev1.StorageClass) error {
	if len(c.MountOptions) > 0 {
		return fmt.Errorf("class %q has mountOptions %q, and the kubelet refuses mount options of hostPath volumes; "+
			"a class cannot be edited: delete it and create it again without them, or use a class of provisioner %s",
			c.Name, c.MountOptions, CSIProvisioner)
	}
	_, err := ParametersOf(c)
	return err
}

// HostPathPV returns the hostPath PV of the volume at path. The capacity is the
// claim's request. The caller adds the claimRef.
//
// The source has the type Directory, so that a pod fails to start while the disk of
// the directory is not mounted. With any other type it could write to the disk below.
func HostPathPV(name, path string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass,
	at Place, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	directory := corev1.HostPathDirectory
	pv := newPV(name, claim, c, at, policy)
	pv.Annotations[AnnIdentity] = HostPathProvisioner
	pv.Annotations[AnnProvisionOnNode] = at.Node
	pv.Annotations[AnnProvisionedBy] = c.Provisioner
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &directory},
	}
	pv.Spec.NodeAffinity = affinity(corev1.LabelHostname, at.Hostname)
	return pv
}
