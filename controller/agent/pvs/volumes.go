package pvs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// VolumeOf returns the pool and the volume of a PV, for callers that change the volume. The
// error is an ErrNotReady if the pool is not ready; the PV is valid then, and the pool is
// returned. It is an ErrMigrating while the PV is being replaced.
func (p *PVs) VolumeOf(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	pool, v, err := p.volumeOf(pv)
	if err == nil && v.Migrating() != nil {
		err = fmt.Errorf("PV %s: %w", pv.Name, v.Migrating())
	}
	return pool, v, err
}

// Validate returns the pool and the volume of a PV if the PV is valid and the volume's
// record names it. It also accepts PVs of other provisioners that may be migrated. Their
// volumes have no state before they are adopted.
//
// If the marks of the PV disagree, Validate asks the API server about the Nodes that they name:
// always if fresh is set, and otherwise if it was not asked lately.
//
// The error is an ErrNotReady if the pool is not ready; the PV is valid then, and the pool
// is returned.
func (p *PVs) Validate(ctx context.Context, pv *corev1.PersistentVolume,
	fresh bool) (*volume.Pool, volume.Volume, error) {
	maxAge := resync
	if fresh {
		maxAge = 0
	}
	if other := contract.MadeBy(pv, p.Others); other != nil {
		p.askNodes(ctx, p.foreign(other), pv, maxAge)
		return p.validateOther(other, pv)
	}
	if b := p.backendOf(pv); b != nil {
		p.askNodes(ctx, b, pv, maxAge)
	}
	return p.volumeOf(pv)
}

// CheckRecorded returns an error while the record of a PV's volume may have another reclaim policy
// than the PV, because its pool is not ready for example: the PV must not go before, since the
// record then decides about the volume. A PV with policy Retain waits also if the agent refuses it,
// or its volume is set aside: recordRetain writes the policy. CheckRecorded returns nil for a PV
// without a volume of this node, and during a migration that gave the PV its policy.
func (p *PVs) CheckRecorded(pv *corev1.PersistentVolume) error {
	_, v, err := p.volumeOf(pv)
	pool, r, lacks := p.LacksRetain(pv)
	if lacks {
		v.Record, err = r, pool.Ready()
	}
	switch policy := string(pv.Spec.PersistentVolumeReclaimPolicy); {
	case errors.Is(err, volume.ErrNotReady):
		return fmt.Errorf("the finalizer stays until the reclaim policy %s is recorded: %w; if the pool never returns: %s",
			policy, err, contract.ToDropFinalizer(pv.Name))
	case err == nil && (lacks || v.Migrating() == nil) && (v.State != record.Bound || v.ReclaimPolicy != policy):
		return fmt.Errorf("the finalizer stays until the reclaim policy %s is recorded; the record has %q", policy,
			v.ReclaimPolicy)
	}
	return nil
}

// recordRetain writes the policy of a PV with Retain to the record that names it, whatever else is
// wrong with the PV: the agent may refuse it, and an administrator who wants its data sets Retain
// before he removes it. A policy Delete is recorded with a PV that is bound to its record alone.
func (p *PVs) recordRetain(pv *corev1.PersistentVolume) error {
	pool, r, ok := p.LacksRetain(pv)
	if !ok {
		return nil
	}
	err := pool.RecordPolicy(r.Name, pv.Name, string(corev1.PersistentVolumeReclaimRetain))
	if errors.Is(err, volume.ErrNotFound) || errors.Is(err, volume.ErrMigrating) { // since
		return nil
	}
	return err
}

// LacksRetain returns the record that names a PV with policy Retain and has another policy. ok is
// false if there is none in a pool of this agent, if the PV certainly names another volume, and
// during a migration, which gives PVs that policy. Before it has done so, a PV has it from a person.
func (p *PVs) LacksRetain(pv *corev1.PersistentVolume) (pool *volume.Pool, r record.Record, ok bool) {
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return nil, r, false
	}
	names := strings.Split(contract.DirectoryOf(pv), "/")
	if source := pv.Spec.CSI; source != nil {
		names = []string{source.VolumeHandle}
	}
	for _, pool := range p.Pools.All() {
		for _, name := range names {
			r, ok := pool.Cached(name)
			if ok && r.NamesPV(pv.Name) && r.State != record.Deleting && !p.byMigration(pv, r) &&
				r.ReclaimPolicy != string(corev1.PersistentVolumeReclaimRetain) && !p.NamesOther(pv, pool, name) {
				return pool, r, true
			}
		}
	}
	return nil, r, false
}

// byMigration reports whether a PV may have its policy from a migration of its volume. One that began in
// another cluster ends once the volume is bound here, and nothing removes the volume before.
func (p *PVs) byMigration(pv *corev1.PersistentVolume, r record.Record) bool {
	return r.Migrating() != nil && (r.Migration.Step != record.MigrationPrepared ||
		pv.Annotations[contract.AnnPolicy] != "" || r.Cluster != p.Node.Cluster())
}

func (p *PVs) volumeOf(pv *corev1.PersistentVolume) (*volume.Pool, volume.Volume, error) {
	b := p.backendOf(pv)
	if b == nil {
		return nil, volume.Volume{}, p.unserved(pv)
	}
	pool, name, err := b.validate(pv)
	if err != nil {
		return nil, volume.Volume{}, err
	}
	v, err := pool.Get(name)
	if err != nil {
		return pool, volume.Volume{}, err
	}
	return pool, v, b.matches(v, pv)
}

// setAside returns a volume whose deletion was begun and not finished. The error is an
// ErrNotReady if that changed meanwhile.
func setAside(pool *volume.Pool, name string) (volume.Volume, error) {
	r, ok := pool.Cached(name)
	if !ok || !r.InTrash() {
		return volume.Volume{}, volume.ErrNotReady
	}
	return volume.Volume{Record: r, Path: filepath.Join(pool.Path(), name)}, nil
}

// syncSetAside handles a PV whose volume's deletion was begun and not finished, because its
// caller did not wait for the disk. If the PV may still delete the volume, the library calls
// Delete again, and syncSetAside does nothing. If not, it brings the volume back.
func (p *PVs) syncSetAside(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool,
	name string) error {
	v, err := setAside(pool, name)
	if err != nil {
		return err
	}
	if err := b.matches(v, pv); err != nil && !errors.As(err, new(claimMismatch)) {
		p.refuse(ctx, pv, err)
		return nil
	}
	if contract.Leaving(pv) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		if _, err := p.deletable(pv, nil); err == nil || errors.Is(err, volume.ErrNotReady) {
			return err
		}
	}
	err = pool.Restore(name)
	switch {
	case errors.Is(err, volume.ErrConflict):
		p.refuse(ctx, pv, err)
		return nil
	case errors.Is(err, volume.ErrNotFound): // its deletion was decided
		return nil
	case err != nil:
		return err
	}
	klog.FromContext(ctx).Info("Brought back a volume whose deletion was begun and not finished: its PV is kept now", "PV",
		pv.Name, "volume", v.Path)
	return errPending // binds the volume
}
