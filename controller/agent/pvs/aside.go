package pvs

import (
	"context"
	"errors"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

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
