package pvs

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Migratable returns the PVs of this node that other provisioners created and that the
// agent may migrate, as of the last sweep. It omits PVs that have the node label by now.
// PVs neither binds nor deletes them: their own provisioner still deletes them.
func (p *PVs) Migratable() (all []*corev1.PersistentVolume) {
	migratable := *p.migratable.Load()
	for i := range migratable {
		if p.Saved(migratable[i].Name) == nil {
			all = append(all, &migratable[i])
		}
	}
	return all
}

// isMigratable reports whether a PV names this node and one of the other provisioners. The PV is
// not validated.
func (p *PVs) isMigratable(pv *corev1.PersistentVolume) bool {
	other := contract.MadeBy(pv, p.Others)
	return other != nil && other.Names(pv, backends.At(p.Node))
}

// IsForeign reports whether another provisioner created a PV, and the agent does not serve
// the PVs of that provisioner. It may migrate them.
func (p *PVs) IsForeign(pv *corev1.PersistentVolume) bool {
	return contract.OfOther(pv) && p.backendNamed(pv.Annotations[contract.AnnProvisionedBy]) == nil
}

// foreign returns the backend of another provisioner, whose directories may be in any pool.
func (p *PVs) foreign(other *contract.Dialect) *backend {
	return p.backend(backends.HostPath(p.Node, backends.Served{Dialect: *other, Pools: p.Pools.All()}))
}

// Serves reports whether this agent serves a PV, or another provisioner does: one of the
// provisioner in its annotation, or of the CSI driver.
func (p *PVs) Serves(pv *corev1.PersistentVolume) bool {
	return p.IsForeign(pv) || p.backendOf(pv) != nil
}

// At returns the names and UIDs of the node, of its cluster and of the pool as new PVs have them.
func (p *PVs) At(pool *volume.Pool) contract.Place {
	at := backends.At(p.Node)
	at.NodeUID, at.Cluster, at.Pool = p.Node.UID(), p.Node.Cluster(), pool.ID()
	return at
}

// ValidateReturn returns nil if a hostPath or local PV that is not saved yet would be valid for a
// volume: for this agent, or for the other provisioner that made it, whether its PVs may be
// migrated or not.
func (p *PVs) ValidateReturn(pv *corev1.PersistentVolume, v volume.Volume) error {
	validate := p.volumeOf
	if p.IsForeign(pv) {
		validate = func(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
			return p.validateOther(contract.MadeByOther(pv), pv)
		}
	}
	_, there, err := validate(pv)
	if err == nil && (there.Path != v.Path || !there.Same(v.Record)) {
		err = fmt.Errorf("it names the volume at %s, and the volume is at %s", there.Path, v.Path)
	}
	return err
}

// validateOther is Validate for a PV of another provisioner.
func (p *PVs) validateOther(other *contract.Dialect, pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	var none volume.Volume
	b := p.foreign(other)
	pool, name, err := b.validate(pv)
	if err != nil {
		return pool, none, err
	}
	if err := other.CheckNames(pv, name); err != nil {
		return nil, none, fmt.Errorf("it is not named as provisioner %s names PVs: %w", other.Provisioner, err)
	}
	v, err := pool.Get(name)
	switch {
	case err == nil:
		return pool, v, matches(v, pv)
	case !errors.Is(err, volume.ErrNotFound):
		return pool, none, err
	}
	marks := b.Marks(pv)
	marks.Volume, marks.Adoption = true, true
	if err := p.nodes.whose(marks, p.Node); err != nil {
		return pool, none, err
	}
	path := contract.DirectoryOf(pv)
	empty, err := pool.Adoptable(name)
	switch {
	case errors.Is(err, volume.ErrNotFound):
		return pool, none, fmt.Errorf("its directory %s is not there", path)
	case err != nil:
		return pool, none, err
	case empty && pv.Spec.NodeAffinity == nil && pv.Annotations[contract.AnnMigrate] == "":
		return pool, none, fmt.Errorf("its directory %s is empty, and the PV names no node, so that its pods may have "+
			"written on another one: check %s there; if no data is missing, kubectl annotate pv %s %s=run",
			path, path, pv.Name, contract.AnnMigrate)
	}
	// These provisioners write as the capacity what the claim requested. Its request now may be a
	// growth, which none of them serves.
	bytes := contract.WholeBytes(pv.Spec.Capacity.Storage())
	return pool, volume.Volume{Record: record.Record{Name: name, PV: pv.Name, Owner: ownerOf(pv), Bytes: bytes},
		Path: path}, nil
}

// Adopt creates a record for the directory of a PV of another provisioner that has none, and begins
// its migration in the same write. It allocates the PV's capacity. The errors are those of Validate
// and AdoptMigrating.
func (p *PVs) Adopt(pv *corev1.PersistentVolume, m record.Migration) (*volume.Pool, record.Record, error) {
	other := contract.MadeBy(pv, p.Others)
	if other == nil {
		return nil, record.Record{}, fmt.Errorf("PV %s is not of a provisioner whose PVs may be migrated", pv.Name)
	}
	pool, v, err := p.validateOther(other, pv)
	if err != nil {
		return nil, record.Record{}, err
	}
	r, err := pool.AdoptMigrating(p.adoption(pv, v.Name, v.Bytes), m)
	if err == nil {
		p.Changed(pool)
	}
	return pool, r, err
}
