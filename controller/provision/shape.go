package provision

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/volume"
)

// shape is what a provisioner's name decides: what its classes offer, in which
// pool their volumes lie, and what the PVs look like. Everything else is the
// same for all volumes. hostpath.go and csi.go are the two there are.
type shape interface {
	// provisioner is its name in classes and on PVs.
	provisioner() string

	// Rule says whose a claim of it is.
	rule() claims.Rule
	// check returns nil where claim and class ask for what is offered. The
	// error is in words for the claim's user; no retry changes the answer.
	check(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) error
	// pool of the class's volumes, nil where this node has none of that name.
	pool(*storagev1.StorageClass) *volume.Pool
	// givesBack reports whether a claim that is refused so goes back to the
	// scheduler, which may find another node.
	givesBack(*corev1.PersistentVolumeClaim, *storagev1.StorageClass, *refusal) bool
	// ignored says what of a claim nobody heeded that was served; "" is nothing.
	ignored(*corev1.PersistentVolumeClaim) string

	// directory is the name of the volume of a new PV.
	directory(pv string, claim *corev1.PersistentVolumeClaim) string
	// newPV describes the PV of a volume that is made. The library adds the
	// claimRef.
	newPV(lib.ProvisionOptions, *volume.Pool, volume.Volume) *corev1.PersistentVolume
}

// shapeNamed returns the shape of that provisioner, nil where it is not served.
func (c *Controller) shapeNamed(provisioner string) shape {
	for _, s := range c.shapes {
		if s.provisioner() == provisioner {
			return s
		}
	}
	return nil
}
