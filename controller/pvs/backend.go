package pvs

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// backend is the kind of PVs that one provisioner makes.
type backend struct {
	rules
	provisioner string // its name in classes and on PVs
	// labelsUnchecked: a PV that is valid gets our label although its directory has
	// no record and may not be adopted. Once it is watched, an annotation that was
	// missing is seen at once.
	labelsUnchecked bool
	// mayLackPV: a record may name no PV. The sidecar passes the PV's name to the
	// driver only if it is configured to. The handle is the volume's all the same.
	mayLackPV bool
	// trustsCapacity: the capacity of a PV that names the pool is the size of its
	// volume. An older provisioner, which named no pool, wrote the whole disk's.
	trustsCapacity bool
}

// rules are what a backend reads in a PV.
type rules interface {
	// ofThisNode reports whether a PV without our label names this node.
	ofThisNode(*corev1.PersistentVolume) bool
	// names returns the pool and the directory that a PV names, nil if that is no
	// pool of this node. It checks nothing else.
	names(*corev1.PersistentVolume) (*volume.Pool, string)
	// validate returns the pool and the directory of a PV whose fields agree: our
	// identity, this node, this pool. Anyone who may write PVs can have written
	// them. A path is compared, never followed.
	validate(*corev1.PersistentVolume) (*volume.Pool, string, error)
	// adoptable returns nil if a valid PV may make a volume of a directory without
	// a record.
	adoptable(*corev1.PersistentVolume, *volume.Pool, string) error
	// deletable returns nil if the volume of a valid PV may be deleted by the PV's
	// policy.
	deletable(*corev1.PersistentVolume) error
}

// backendNamed returns the backend of that provisioner, nil if it is not served.
func (p *PVs) backendNamed(provisioner string) *backend {
	for _, b := range p.backends {
		if b.provisioner == provisioner {
			return b
		}
	}
	return nil
}

// backendOf returns the backend that a PV has, or pretends to have. It is nil if
// that is not served here: a node may have another agent for it.
func (p *PVs) backendOf(pv *corev1.PersistentVolume) *backend {
	source := pv.Spec.CSI
	if source != nil {
		if b := p.backendNamed(source.Driver); b != nil {
			return b
		}
	}
	if b := p.backendNamed(pv.Annotations[class.AnnProvisionedBy]); b != nil {
		return b
	}
	if source != nil {
		return nil
	}
	return p.backendNamed(class.HostPathProvisioner)
}

// matches returns nil if the PV is the one of the volume's record, and an
// otherClaim if all but the claim is.
func (b *backend) matches(v volume.Volume, pv *corev1.PersistentVolume) error {
	if v.PV == "" && b.mayLackPV {
		v.PV = pv.Name
	}
	return matches(v, pv)
}

// defaultBytes is the allocation of an adopted volume if no claim has a request, in
// bytes.
func (b *backend) defaultBytes(pv *corev1.PersistentVolume) int64 {
	if b.trustsCapacity && hasPoolUUID(pv) {
		return pv.Spec.Capacity.Storage().Value()
	}
	return 0
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
	case uid == "" && hasPoolUUID(pv):
		return nil // it waits for another claim
	default:
		return claimMismatch{path: v.Path, uid: uid, owner: v.Owner}
	}
}

// hasPoolUUID reports whether a PV that was examined carries the pool's UUID.
func hasPoolUUID(pv *corev1.PersistentVolume) bool { return pv.Annotations[class.AnnPool] != "" }

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
