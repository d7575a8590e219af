package pvs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
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
	// mismatch is nil unless the record names another claim than the PV, which
	// may have been given to it since.
	mismatch error
}

// Kept is why the volume of a PV is not deleted although the pool could.
type Kept struct{ Reason string }

func (e Kept) Error() string { return e.Reason }

// Deletable returns nil if Delete may delete the volume of a PV, as far as the agent
// can tell from memory. The error is an ErrNotReady if the pool cannot tell now.
func (p *PVs) Deletable(pv *corev1.PersistentVolume) error {
	_, err := p.deletable(pv, nil)
	return err
}

// Delete puts the PV's volume into the trash. It may be called again: it returns nil
// if the volume is gone, but only on a pool that is ready. It returns a Kept if the
// volume stays until the PV or a claim changes, and an error if it is still mounted.
func (p *PVs) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	claim, err := p.claimOf(ctx, pv)
	if err != nil {
		return err
	}
	d, err := p.deletable(pv, claim)
	if err != nil || d.vanished {
		return err
	}
	if err := p.updateRecord(ctx, pv, d); errors.Is(err, volume.ErrNotFound) {
		return nil // the directory went in an earlier call
	} else if err != nil {
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

// claimOf returns the claim that a PV names, nil if it names none or the claim is
// gone. It asks the API server unless the watch has seen the claim's deletion. The
// PV's phase does not answer this: a PV is Released for a moment after it got its
// next claim, or its claim back.
func (p *PVs) claimOf(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	if waitsForClaim(pv) || p.claims.IsDeleted(types.UID(class.ClaimUID(pv))) {
		return nil, nil
	}
	return live.Claim(ctx, p.client, ownerOf(pv))
}

// deletable decides whether the volume of a PV may be deleted, by the PV, its claim,
// nil if that is gone, and the pool. It asks the API server nothing and changes
// nothing. The error is why the volume stays: a Kept if a claim has it, an
// ErrNotReady if the pool cannot tell now.
func (p *PVs) deletable(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (d deletion, err error) {
	switch {
	case waitsForClaim(pv):
		return d, Kept{"its claimRef has no claim's UID, so it waits for a claim"}
	case claim != nil && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == pv.Name):
		return d, Kept{fmt.Sprintf("claim %s/%s has it", claim.Namespace, claim.Name)}
	}
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
	case errors.Is(err, volume.ErrNotFound) && volumeGone(pv, d.pool, d.name):
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
	if err = d.backend.matches(d.volume, pv); errors.As(err, new(claimMismatch)) && class.Leaving(pv) {
		d.mismatch, err = err, nil
	}
	return d, err
}

// updateRecord makes the record of a volume that may be deleted name the PV and its claim:
// it adopts a directory of an older provisioner, and rebinds a volume whose PV was
// given to another claim since.
func (p *PVs) updateRecord(ctx context.Context, pv *corev1.PersistentVolume, d deletion) error {
	switch {
	case !d.recorded:
		return p.adoptDirectory(ctx, pv, d.pool, d.name, d.backend.defaultBytes(pv))
	case d.mismatch == nil:
		return nil
	}
	_, err := p.rebind(ctx, pv, d.pool, d.volume, d.mismatch)
	if err != nil && !errors.Is(err, volume.ErrNotReady) {
		return Kept{err.Error()}
	}
	return err
}
