package pvs

import (
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume"
)

// backend handles the PVs of one provisioner: those of a dialect, or CSI PVs.
type backend struct {
	rules
	provisioner string // the name in classes and on PVs
	// labelsUnchecked makes the sweep label a valid PV although its directory has no
	// record and may not be adopted. The agent then sees at once when a user adds the
	// annotation that adoption needs.
	labelsUnchecked bool
	// mayLackPV accepts records without a PV. The sidecar passes the PV's name to the
	// driver only if it is configured to. Such a record matches by the volume handle.
	mayLackPV bool
	// trustsCapacity takes the capacity of a PV with a pool UUID as the size of its
	// volume. An older provisioner wrote no UUID, and the capacity of the whole disk.
	trustsCapacity bool
}

// rules read and check the fields of the PVs of one backend.
type rules interface {
	// ofThisNode reports whether a PV names this node. It ignores the node label.
	ofThisNode(*corev1.PersistentVolume) bool
	// names returns the pool and the directory that a PV names. The pool is nil if this
	// node has no such pool. names checks nothing else.
	names(*corev1.PersistentVolume) (*volume.Pool, string)
	// marks returns the marks by which a PV names its node, without Volume.
	marks(*corev1.PersistentVolume) identity.PV
	// validate returns the pool and the directory of a PV. It returns an error unless
	// provisioner and pool of the PV are those of the agent and the volume is this node's,
	// provided that its record names the PV, which the caller checks. Any writer of PVs
	// can choose these fields: validate compares a path and never opens it.
	validate(*corev1.PersistentVolume) (*volume.Pool, string, error)
	// adoptable returns nil if the agent may adopt the directory of a valid PV, which
	// has no record.
	adoptable(*corev1.PersistentVolume, *volume.Pool, string) error
	// deletable returns nil if the agent may delete the volume of a valid PV when the
	// PV's reclaim policy is Delete.
	deletable(*corev1.PersistentVolume) error
}

// backendNamed returns the backend of a provisioner, nil if the agent does not serve it.
func (p *PVs) backendNamed(provisioner string) *backend {
	for _, b := range p.backends {
		if b.provisioner == provisioner {
			return b
		}
	}
	return nil
}

// backendOf returns the backend that the fields of a PV name. The PV is not validated.
// backendOf returns nil if this agent does not serve that backend, or the provisioner of another
// dialect that the PV's annotation names; the node may have another agent for it.
func (p *PVs) backendOf(pv *corev1.PersistentVolume) *backend {
	source := pv.Spec.CSI
	if source != nil {
		if b := p.backendNamed(source.Driver); b != nil {
			return b
		}
	}
	if b := p.backendNamed(pv.Annotations[contract.AnnProvisionedBy]); b != nil {
		return b
	}
	if source != nil || contract.OfOther(pv) {
		return nil
	}
	return p.backendNamed(contract.HostPathProvisioner)
}

// matches is the function matches for a PV of the backend. It accepts a record without a
// PV if the backend does.
func (b *backend) matches(v volume.Volume, pv *corev1.PersistentVolume) error {
	if v.PV == "" && b.mayLackPV {
		v.PV = pv.Name
	}
	return matches(v, pv)
}

// defaultBytes returns how many bytes to allocate for an adopted volume without a claim.
func (b *backend) defaultBytes(pv *corev1.PersistentVolume) int64 {
	if b.trustsCapacity && hasPoolUUID(pv) {
		return contract.WholeBytes(pv.Spec.Capacity.Storage())
	}
	return 0
}

// matches returns nil if the volume's record names a valid PV, and the PV names the
// record's claim or waits for a claim. The error is a claimMismatch if only the claims
// differ.
func matches(v volume.Volume, pv *corev1.PersistentVolume) error {
	if v.Ephemeral {
		return fmt.Errorf("directory %s is an ephemeral inline volume, which no PV may name", v.Path)
	}
	if v.PV != pv.Name {
		return fmt.Errorf("directory %s belongs to PV %q, not to %q", v.Path, v.PV, pv.Name)
	}
	switch uid := contract.ClaimUID(pv); {
	case v.Owner.UID == "", uid == v.Owner.UID:
		return nil
	case uid == "" && hasPoolUUID(pv):
		return nil // it waits for another claim
	default:
		return claimMismatch{path: v.Path, uid: uid, owner: v.Owner}
	}
}

// vanished returns true if an earlier call deleted the volume of a PV that has no record. A
// directory that is there waits until it is adopted.
func (b *backend) vanished(pv *corev1.PersistentVolume, pool *volume.Pool, directory string) (bool, error) {
	if volumeGone(pv, pool, directory) {
		return true, nil
	}
	if err := b.adoptable(pv, pool, directory); err != nil {
		return false, err
	}
	there, err := pool.HasDirectory(directory)
	if there {
		err = fmt.Errorf("directory %s has no record yet; the agent adopts it first", filepath.Join(pool.Path(), directory))
	}
	return !there && err == nil, err
}

// volumeGone reports whether a PV with the pool's UUID has no directory in the pool. An
// earlier call has then deleted its volume. It returns false if the pool is not ready.
// The caller has checked that there is no record.
func volumeGone(pv *corev1.PersistentVolume, pool *volume.Pool, directory string) bool {
	there, err := pool.HasDirectory(directory)
	return hasPoolUUID(pv) && !there && err == nil
}

// hasPoolUUID reports whether a PV has the UUID of a pool. The validation of the PV has
// compared the UUID with the pool's.
func hasPoolUUID(pv *corev1.PersistentVolume) bool { return pv.Annotations[contract.AnnPool] != "" }

// checkPool returns an error if the PV's pool UUID is not that of the pool. It returns
// nil if the PV has no UUID, or if the pool was never open and has no identity yet.
func checkPool(pv *corev1.PersistentVolume, pool *volume.Pool) error {
	if id := pv.Annotations[contract.AnnPool]; id != "" && pool.ID() != "" && id != pool.ID() {
		return fmt.Errorf("it names pool %s, and the pool in %s is %s", id, pool.Path(), pool.ID())
	}
	return nil
}
