package class

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// HostPathModes are the access modes of claims that get hostPath PVs.
var HostPathModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}

// CheckHostPath returns nil if the agent can serve claims of a hostPath class. The
// kubelet refuses to start a pod whose hostPath volume has mount options ("mount
// options are not supported for this volume type"), so such a class is refused.
func CheckHostPath(c *storagev1.StorageClass) error {
	if len(c.MountOptions) > 0 {
		return fmt.Errorf("class %q has mountOptions %q, and kubelets start no pod with a hostPath volume that has any; "+
			"a class cannot be edited: delete it and make it anew without them, or use a class of provisioner %s",
			c.Name, c.MountOptions, CSIProvisioner)
	}
	_, err := ParametersOf(c)
	return err
}

// HostPathPV returns the hostPath PV of a volume that lies at path. Its
// capacity is the claim's request. The caller adds the claimRef.
//
// The source has type Directory: where the directory is gone because its disk
// is not mounted, the pod must fail to start, not write to the disk below.
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
