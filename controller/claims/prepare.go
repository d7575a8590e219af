package claims

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// prepare returns the claim of this node as the library shall see it: a copy
// without managedFields, with what the library waits for and the claim has not
// yet.
//
// That is the provisioner's name. The controller-manager writes it once a claim
// of a class that binds on first use has its node, and gives such a claim no other
// PV than one that was made for it (FindMatchingVolume in
// k8s.io/component-helpers/storage/volume), so nothing is to be waited for.
// Where an annotation places a claim of a hostPath class, it is also the node; for
// a class that the scheduler alone decides for, that annotation means nothing.
//
// Neither reaches the API server, but where a claim goes back to the scheduler:
// then the name is what the controller-manager would have written.
//
// The claim given is not changed; it may stand in a cache.
func prepare(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass, node string) *corev1.PersistentVolumeClaim {
	out := claim.DeepCopy()
	out.ManagedFields = nil
	if c == nil || claim.Spec.VolumeName != "" {
		return out
	}
	switch placed := c.Provisioner == class.HostPathProvisioner && class.NamesNode(out); {
	case placed && class.Delayed(c):
		out.Annotations[class.AnnSelectedNode] = node
	case placed:
	case !class.Delayed(c) || out.Annotations[class.AnnSelectedNode] != node:
		return out
	}
	out.Annotations[class.AnnStorageProvisioner] = c.Provisioner
	return out
}
