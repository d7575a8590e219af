package provision

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// prepare returns the claim of this node as the library shall see it: a copy
// without managedFields. Where an annotation places the claim, the copy carries
// what the library waits for, the provisioner's name and, for a class that binds
// on first use, the node. Neither reaches the API server: claims with an
// annotation are never rescheduled, so the library never writes the copy back.
// For a class that the scheduler alone decides for, an annotation means nothing.
//
// The claim given is not changed; it may stand in a cache.
func prepare(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass, node string) *corev1.PersistentVolumeClaim {
	out := claim.DeepCopy()
	out.ManagedFields = nil
	if c == nil || c.Provisioner != class.HostPathProvisioner || !annotated(out) {
		return out
	}
	out.Annotations[class.AnnStorageProvisioner] = c.Provisioner
	if class.Delayed(c) {
		out.Annotations[class.AnnSelectedNode] = node
	}
	return out
}
