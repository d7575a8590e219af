package provision

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// deletion is the volume of a PV that may be deleted.
type deletion struct {
	backend *backend
	pool    *volume.Pool
	name    string // of the directory
	// recorded is false if the volume went in an earlier call, or if an older
	// provisioner made it. vanished tells the two apart: the directory is not
	// there either.
	recorded, vanished bool
	volume             volume.Volume // if recorded
	// otherClaim is nil unless the record names another claim than the PV, which
	// may have been given to it since.
	otherClaim error
}

// deletable decides whether the volume of a PV may be deleted, by what the PV says
// and the pool has. It asks the API server nothing and changes nothing. The error
// says why the volume stays; it is an ErrNotReady if the pool cannot tell now.
func (p *PVs) deletable(pv *corev1.PersistentVolume) (d deletion, err error) {
	if d.backend = p.backendOf(pv); d.backend == nil {
		return d, fmt.Errorf("node %s serves no PVs like this one", p.node.Name())
	}
	if d.pool, d.name, err = d.backend.validate(pv); err != nil {
		return d, err
	}
	if err := d.backend.deletable(pv); err != nil {
		return d, err
	}
	d.volume, err = d.pool.Get(d.name)
	switch {
	case errors.Is(err, volume.ErrNotFound) && nothingLeft(pv, d.pool, d.name):
		d.vanished = true
		return d, nil
	case errors.Is(err, volume.ErrNotFound):
		return d, d.backend.adoptable(pv, d.pool, d.name)
	case err != nil:
		return d, err
	case d.volume.Held() != nil:
		return d, fmt.Errorf("PV %s: %w", pv.Name, d.volume.Held())
	}
	d.recorded = true
	if err = d.backend.matches(d.volume, pv); errors.As(err, new(otherClaim)) && class.Leaving(pv) {
		d.otherClaim, err = err, nil
	}
	return d, err
}

// ShouldDelete reports whether Delete may delete the volume of a PV, or cannot tell
// yet.
func (p *PVs) ShouldDelete(ctx context.Context, pv *corev1.PersistentVolume) bool {
	if waitsForClaim(pv) {
		return false
	}
	d, err := p.deletable(pv)
	if err == nil && d.otherClaim != nil {
		_, err = p.heir(ctx, pv, d.pool, d.volume, d.otherClaim)
	}
	// Delete returns an ErrNotReady again, and is retried. That is so too if another
	// agent has the pool: the library forgets a PV that may not be deleted, and that
	// agent may end before it deleted the volume.
	return err == nil || errors.Is(err, volume.ErrNotReady)
}

// Delete puts the PV's volume into the trash. It may be called again; a volume
// that is gone is a success, but only on a pool that is ready. One that is still
// mounted is an error.
func (p *PVs) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	if err := p.claimGone(ctx, pv); err != nil {
		return err
	}
	d, err := p.deletable(pv)
	if err != nil {
		return err
	}
	switch {
	case d.vanished:
		return nil
	case d.recorded:
		_, err = p.follow(ctx, d.backend, pv, d.pool, d.volume)
	default:
		// Either it went in an earlier call, or an older provisioner made it.
		if err = p.adopt(ctx, d.backend, pv, d.pool, d.name); errors.Is(err, volume.ErrNotFound) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	err = d.pool.DeleteIf(d.name, func(now volume.Record) error { // which may have another claim meanwhile
		return d.backend.matches(volume.Volume{Record: now, Path: filepath.Join(d.pool.Path(), d.name)}, pv)
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", p.node.Name(), err)
	}
	p.changed(d.pool)
	p.claims.Retry()
	return nil
}
