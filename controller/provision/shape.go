package provision

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/controller/class"
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

	// ofThisNode reports whether a PV says that it is of this node, where it
	// has no label of ours to say so.
	ofThisNode(*corev1.PersistentVolume) bool
	// names returns the pool and the directory that a PV names, nil where that
	// is no pool of this node. No more is looked at than that takes.
	names(*corev1.PersistentVolume) (*volume.Pool, string)
	// examine returns the same for a PV that says the same thing throughout:
	// our identity, this node, this pool. Everything a PV says can have been
	// written by somebody else. A path is compared, never followed.
	examine(*corev1.PersistentVolume) (*volume.Pool, string, error)
	// matches returns nil where the PV is the one that the volume's record
	// names, and otherClaim where all but the claim is.
	matches(volume.Volume, *corev1.PersistentVolume) error
	// adoptable returns nil where a PV that was examined may make a volume of
	// a directory without a record.
	adoptable(*corev1.PersistentVolume, *volume.Pool, string) error
	// labels returns nil where a PV that was examined, and whose directory has
	// no record, gets our label, and so is watched.
	labels(*corev1.PersistentVolume, *volume.Pool, string) error
	// unclaimed is what is promised to an adopted volume where no claim says
	// what was asked for, in bytes.
	unclaimed(*corev1.PersistentVolume) int64
	// deletes returns nil where the volume of a PV may be deleted by the PV's
	// policy.
	deletes(*corev1.PersistentVolume) error
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

// shapeOf returns the shape that a PV has, or pretends to have. It is nil where
// that is not served here: a node may have another agent for it.
func (c *Controller) shapeOf(pv *corev1.PersistentVolume) shape {
	source := pv.Spec.CSI
	if source != nil {
		if s := c.shapeNamed(source.Driver); s != nil {
			return s
		}
	}
	if s := c.shapeNamed(pv.Annotations[class.AnnProvisionedBy]); s != nil {
		return s
	}
	if source != nil {
		return nil
	}
	return c.shapeNamed(class.HostPathProvisioner)
}

// matches returns nil where the PV, which was examined, is the one of the volume's
// record, and has that one's claim or waits for another. The error is otherClaim
// where only the claim is not the record's.
func matches(v volume.Volume, pv *corev1.PersistentVolume) error {
	if v.Ephemeral {
		return fmt.Errorf("directory %s is a pod's own volume, which no PV names", v.Path)
	}
	if v.PV != pv.Name {
		return fmt.Errorf("directory %s belongs to PV %q, not to %q", v.Path, v.PV, pv.Name)
	}
	switch uid := class.ClaimUID(pv); {
	case v.Owner.UID == "", uid == v.Owner.UID:
		return nil
	case uid == "" && namesPool(pv):
		return nil // it waits for another claim
	default:
		return otherClaim{path: v.Path, names: uid, owner: v.Owner}
	}
}

// namesPool reports whether a PV that was examined carries the pool's UUID.
func namesPool(pv *corev1.PersistentVolume) bool { return pv.Annotations[class.AnnPool] != "" }

// checkPool refuses a PV that names another pool than the one it was found in.
// A pool that was never open has no identity yet.
func checkPool(pv *corev1.PersistentVolume, pool *volume.Pool) error {
	if id := pv.Annotations[class.AnnPool]; id != "" && pool.ID() != "" && id != pool.ID() {
		return fmt.Errorf("it names pool %s, and the pool in %s is %s", id, pool.Path(), pool.ID())
	}
	return nil
}

// namedAfterClaim returns nil where a PV names a directory just as a
// provisioner does, this one or an older one whose place it takes.
func namedAfterClaim(pv *corev1.PersistentVolume, directory string) error {
	ref := pv.Spec.ClaimRef
	if ref == nil || pv.Name != "pvc-"+string(ref.UID) {
		return errors.New("its name is not pvc-<UID of its claim>")
	}
	plain, prefixed := class.Directory(pv.Name, ref.Name, false), class.Directory(pv.Name, ref.Name, true)
	if directory != plain && directory != prefixed {
		return fmt.Errorf("directory %q is not named after it: want %q or %q", directory, plain, prefixed)
	}
	return nil
}
