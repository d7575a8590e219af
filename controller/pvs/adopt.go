package pvs

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

// syncUnknown adopts the directory of a PV that has no record. A PV that is on
// its way out and has no directory either is just that. The PV in memory may be
// older than the volume's deletion, so the API server is asked before anybody is
// warned.
func (p *PVs) syncUnknown(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	deleted := func(pv *corev1.PersistentVolume) bool {
		return class.Leaving(pv) && b.deletable(pv) == nil && volumeGone(pv, pool, directory)
	}
	if deleted(pv) {
		return nil
	}
	err := p.adopt(ctx, b, pv, pool, directory)
	if err != nil && !errors.Is(err, volume.ErrNotReady) {
		now, unread := live.PV(ctx, p.client, pv.Name)
		if unread != nil {
			return unread
		}
		if now == nil || now.UID != pv.UID || deleted(now) {
			return nil
		}
	}
	switch {
	case errors.Is(err, volume.ErrNotReady):
		return err
	case errors.Is(err, volume.ErrNotFound) && pv.DeletionTimestamp != nil:
		return nil
	case err != nil:
		p.refuse(ctx, pv, err)
		return nil
	}
	return p.annotatePool(ctx, pv, pool)
}

// adopt gives the directory of a PV that was made without us a record. It is
// promised what the claim asked for: the PV's own capacity may be the whole
// disk's. Where there is no claim, the shape says what.
func (p *PVs) adopt(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	if err := b.adoptable(pv, pool, directory); err != nil {
		return err
	}
	return p.adoptDirectory(ctx, pv, pool, directory, b.defaultBytes(pv))
}

// adoptDirectory makes the record of a directory that is the PV's. defaultBytes is what is
// promised where there is no claim, in bytes.
func (p *PVs) adoptDirectory(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, directory string, defaultBytes int64) error {
	bytes, err := p.requestedBytes(ctx, pv, defaultBytes)
	if err != nil {
		return err
	}
	_, err = pool.Adopt(volume.Spec{
		Name: directory, Bytes: bytes, PV: pv.Name, Cluster: p.node.Cluster(), Owner: ownerOf(pv),
		ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
	})
	if err == nil {
		p.changed(pool)
		klog.FromContext(ctx).Info("Adopted", "PV", pv.Name, "pool", pool.Path(), "directory", directory, "bytes", bytes)
	}
	return err
}

// requestedBytes is what the PV's claim asks for, in bytes; defaultBytes without one.
func (p *PVs) requestedBytes(ctx context.Context, pv *corev1.PersistentVolume, defaultBytes int64) (int64, error) {
	if waitsForClaim(pv) {
		return defaultBytes, nil
	}
	claim, err := live.Claim(ctx, p.client, ownerOf(pv))
	if claim == nil || err != nil {
		return defaultBytes, err
	}
	return class.Bytes(claim), nil
}

// ownerOf is the claim that the PV is bound to, or nobody.
func ownerOf(pv *corev1.PersistentVolume) volume.Owner {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return volume.Owner{}
	}
	return volume.Owner{Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)}
}
