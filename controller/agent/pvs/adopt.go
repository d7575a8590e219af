package pvs

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
		p.refuse(ctx, pv, cmp.Or(p.deletedOf(pv, pool, directory), err))
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

// deletedOf returns how the volume of a PV comes back that was deleted and that its pool keeps, as after
// etcd was restored from an older backup; nil if the pool does not keep it.
func (p *PVs) deletedOf(pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	for _, k := range pool.Kept() {
		if k.Record.Name == directory && k.Record.PVUID == string(pv.UID) && pv.UID != "" {
			return Kept{fmt.Sprintf("its volume was deleted, and pool %s keeps the data: an administrator brings it back with "+
				"kubectl hpp undelete %s/%s (docs/undelete.md)", pool.Path(), p.Node.Name(), k.ID)}
		}
	}
	return nil
}

// adopt creates a record for the directory of a PV, with the PV's name and no UID, if the PV's
// backend allows that. It allocates what bytesOf returns.
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
	bytes, err := p.bytesOf(ctx, b, pv, pool)
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

// bytesOf returns how many bytes to allocate for an adopted volume. It is what the claim requests, as
// long as the PV has that much: what exceeds the PV's capacity is a growth that no provisioner
// served. Without a claim it is the PV's capacity. It is 0 if the capacity is that of the whole
// filesystem, so that the volume's size is not known; its data then counts as external.
func (p *PVs) bytesOf(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool) (int64, error) {
	capacity := contract.WholeBytes(pv.Spec.Capacity.Storage())
	switch claim, err := live.ClaimOf(ctx, p.Client, pv); {
	case err != nil:
		return 0, err
	case claim != nil && contract.Bytes(claim) <= capacity:
		return contract.Bytes(claim), nil
	case b.showsWholeDisk(pv):
		return 0, nil
	}
	space, err := pool.Space()
	if whole := contract.WholeDisk(space.Total, 0); err != nil || capacity >= contract.WholeBytes(&whole) {
		return 0, err
	}
	return capacity, nil
}

// ownerOf returns the claim that a PV names by its UID. The Owner is empty if there is none.
func ownerOf(pv *corev1.PersistentVolume) record.Owner {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return record.Owner{}
	}
	return record.Owner{Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)}
}
