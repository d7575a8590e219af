package pvs

import (
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// backend handles the PVs of one provisioner.
type backend struct {
	*backends.Backend
	node  Node
	nodes *otherNodes
}

// labelsUnchecked reports whether the sweep labels a valid PV although its directory has no record
// and may not be adopted. The agent then sees when a user adds the annotation for adoption.
func (b *backend) labelsUnchecked() bool { return b.IsCSI }

// validate returns the pool and the directory of a PV. It returns an error unless provisioner and
// pool of the PV are those of the agent, and the volume is this node's. The caller checks that the
// volume's record names the PV.
func (b *backend) validate(pv *corev1.PersistentVolume) (*volume.Pool, string, error) {
	pool, name, err := b.Validate(pv)
	if err != nil {
		return nil, "", err
	}
	marks := b.Marks(pv)
	marks.Volume = true
	return pool, name, b.nodes.whose(marks, b.node)
}

// backendNamed returns the backend of a provisioner, nil if the agent does not serve it.
func (p *PVs) backendNamed(provisioner string) *backend {
	for _, b := range p.backends {
		if b.Provisioner == provisioner {
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

// matches calls the function matches. For a CSI PV it accepts a record that names no PV: the sidecar
// passes the PV's name to the driver only if it is configured to. Such a record matches by the
// volume handle.
func (b *backend) matches(v volume.Volume, pv *corev1.PersistentVolume) error {
	if v.PV == "" && b.IsCSI {
		v.PV = pv.Name
	}
	return matches(v, pv)
}

// showsWholeDisk reports whether the provisioner that made a PV wrote the capacity of the whole disk,
// as the older versions of these did, which wrote no pool UUID. The disk may have had another size.
func (b *backend) showsWholeDisk(pv *corev1.PersistentVolume) bool {
	return !hasPoolUUID(pv) && (b.IsCSI || b.Provisioner == contract.HostPathProvisioner)
}

// matches returns nil if the volume's record names a valid PV, and the PV names the record's claim
// or waits for a claim. The error is a claimMismatch if only the claims differ.
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
	if err := b.Adoptable(pv, pool, directory); err != nil {
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
