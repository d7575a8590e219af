package claims

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// prepare returns a slim copy of a local claim for the provisioner library, with the annotations
// that the library waits for.
//
// One is the provisioner's name. The controller-manager writes it once a claim of a
// class that binds on first use has its node. It binds such a claim only to a PV that
// was created for it (FindMatchingVolume in k8s.io/component-helpers/storage/volume),
// so the library need not wait for it.
//
// The other is the selected node, if an annotation places the claim.
// That annotation has no effect unless the dialect of the provisioner has it.
//
// Neither is written to the API server.
//
// prepare does not change its argument, which may be in a cache.
func prepare(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass, dialect contract.Dialect,
	node string) *corev1.PersistentVolumeClaim {
	out := contract.Slim(claim)
	if c == nil || claim.Spec.VolumeName != "" {
		return out
	}
	switch placed := dialect.ByAnnotation && contract.NamesNode(out); {
	case placed && contract.Delayed(c):
		out.Annotations[contract.AnnSelectedNode] = node
	case placed:
	case !contract.Delayed(c) || out.Annotations[contract.AnnSelectedNode] != node:
		return out
	}
	out.Annotations[contract.AnnStorageProvisioner] = c.Provisioner
	return out
}
