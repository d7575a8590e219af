package pvs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
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

// isMigratable reports whether the fields of a PV name this node and one of the other
// provisioners. The PV is not validated.
func (p *PVs) isMigratable(pv *corev1.PersistentVolume) bool {
	other := class.MadeByOther(pv, p.otherProvisioners)
	return other != nil && other.On(pv, p.node.Name(), p.node.Hostname())
}

// validateOther is Validate for a PV of another provisioner.
func (p *PVs) validateOther(other *class.Other, pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	var none volume.Volume
	if !other.On(pv, p.node.Name(), p.node.Hostname()) {
		return nil, none, fmt.Errorf("it is not one that provisioner %s made on node %s", other.Provisioner, p.node.Name())
	}
	path, err := other.Path(pv)
	if err != nil {
		return nil, none, err
	}
	pool, name := p.poolAt(path)
	if pool == nil {
		return nil, none, fmt.Errorf("its directory %s is not right below a pool of this node; its parent must be one (PV_DIR, --datadir)", path)
	}
	if err := checkPool(pv, pool); err != nil {
		return pool, none, err
	}
	v, err := pool.Get(name)
	switch {
	case err == nil:
		return pool, v, matches(v, pv)
	case !errors.Is(err, volume.ErrNotFound):
		return pool, none, err
	}
	empty, err := pool.Adoptable(name)
	switch {
	case errors.Is(err, volume.ErrNotFound):
		return pool, none, fmt.Errorf("its directory %s is not there", path)
	case err != nil:
		return pool, none, err
	case empty && pv.Spec.NodeAffinity == nil && pv.Annotations[class.AnnMigrate] == "":
		return pool, none, fmt.Errorf("its directory %s is empty, and the PV names no node, so that its pods may have written on another one: "+
			"check %s there; if no data is missing, kubectl annotate pv %s %s=run", path, path, pv.Name, class.AnnMigrate)
	}
	return pool, volume.Volume{Record: record.Record{Name: name, PV: pv.Name, Owner: ownerOf(pv)}, Path: path}, nil
}

// poolAt returns the pool of this node whose path is the parent of path, and the last
// element of path. The pool is nil if there is none.
func (p *PVs) poolAt(path string) (*volume.Pool, string) {
	for _, pool := range p.pools.All() {
		if pool.Path() == filepath.Dir(path) {
			return pool, filepath.Base(path)
		}
	}
	return nil, ""
}

// Adopt creates a record for the directory of a PV of another provisioner, as the first
// step of its migration. It does nothing if the directory has a record. The errors are
// those of Validate.
func (p *PVs) Adopt(ctx context.Context, pv *corev1.PersistentVolume) error {
	other := class.MadeByOther(pv, p.otherProvisioners)
	if other == nil {
		return fmt.Errorf("PV %s is not of a provisioner whose PVs may be migrated", pv.Name)
	}
	pool, v, err := p.validateOther(other, pv)
	if err != nil || v.State != "" {
		return err
	}
	// These provisioners write the claim's request as the PV's capacity.
	return p.adoptDirectory(ctx, pv, pool, v.Name, pv.Spec.Capacity.Storage().Value())
}
