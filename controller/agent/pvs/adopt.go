package pvs

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// syncUnknown adopts the directory of a valid PV without a record. It does nothing if
// the PV is being deleted and its directory is gone. It records an event if the
// directory cannot be adopted. The PV in memory may be older than the volume's deletion,
// so syncUnknown reads the PV from the API server first.
func (p *PVs) syncUnknown(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool,
	directory string) error {
	deleted := func(pv *corev1.PersistentVolume) bool {
		return contract.Leaving(pv) && b.Deletable(pv) == nil && volumeGone(pv, pool, directory)
	}
	if deleted(pv) {
		return nil
	}
	err := p.adopt(ctx, b, pv, pool, directory)
	if err != nil && !errors.Is(err, volume.ErrNotReady) {
		now, unread := live.PV(ctx, p.Client, pv.Name)
		if unread != nil {
			return unread
		}
		if now == nil || now.UID != pv.UID || deleted(now) {
			return nil
		}
		if err := p.reportVolume(ctx, now, pool, directory); err != nil {
			return err
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
	v, err := pool.Get(directory)
	if err != nil {
		return err
	}
	if err := p.bind(ctx, pv, pool, v); err != nil {
		return err
	}
	return p.annotate(ctx, pv, pool)
}

// adopt creates a record for the directory of a PV, with the PV's name and no UID, if the PV's
// backend allows that. It allocates the claim's request: the PV's capacity may be that of the whole disk.
// The backend chooses the size if there is no claim.
func (p *PVs) adopt(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool,
	directory string) error {
	if err := b.Adoptable(pv, pool, directory); err != nil {
		return err
	}
	marks := b.Marks(pv)
	marks.Volume, marks.Adoption = true, true
	if err := p.nodes.whose(marks, p.Node); err != nil {
		return err
	}
	bytes, err := p.requestedBytes(ctx, pv, b.defaultBytes(pv))
	if err != nil {
		return err
	}
	_, err = pool.Adopt(p.adoption(pv, directory, bytes))
	if err == nil {
		p.Changed(pool)
		klog.FromContext(ctx).Info("Adopted", "PV", pv.Name, "pool", pool.Path(), "directory", directory, "bytes", bytes)
	}
	return err
}

// adoption describes the volume of a PV whose directory is adopted.
func (p *PVs) adoption(pv *corev1.PersistentVolume, directory string, bytes int64) volume.Spec {
	return volume.Spec{
		Name: directory, Bytes: bytes, PV: pv.Name, Cluster: p.Node.Cluster(), Owner: ownerOf(pv),
		ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
	}
}

// requestedBytes returns the request of the PV's claim, and defaultBytes if there is no claim.
func (p *PVs) requestedBytes(ctx context.Context, pv *corev1.PersistentVolume, defaultBytes int64) (int64, error) {
	claim, err := live.ClaimOf(ctx, p.Client, pv)
	if claim == nil || err != nil {
		return defaultBytes, err
	}
	return contract.Bytes(claim), nil
}

// ownerOf returns the claim that a PV names by its UID. The Owner is empty if there is none.
func ownerOf(pv *corev1.PersistentVolume) record.Owner {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return record.Owner{}
	}
	return record.Owner{Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)}
}
