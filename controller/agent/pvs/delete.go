package pvs

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

type deletion struct {
	backend  *backend
	pool     *volume.Pool
	name     string // of the directory
	vanished bool   // an earlier call deleted the volume
	object   identity.Object
}

// Kept is the error of a deletion that must wait until the PV or a claim changes.
type Kept struct{ Reason string }

func (e Kept) Error() string { return e.Reason }

// Deletable returns nil if Delete may delete the volume of a PV. It decides from memory
// and asks no API server. The error is an ErrNotReady while the pool is not ready.
func (p *PVs) Deletable(pv *corev1.PersistentVolume) error {
	_, err := p.deletable(pv, nil)
	return err
}

// Delete moves the PV's volume into the trash. It returns nil if the volume is gone, but
// only if the pool is ready. It returns a Kept if the deletion must wait for a change of
// the PV or a claim, and an error if the volume is still mounted.
//
// It reads PV and claim from the API server, and decides about what it read. The PV of a watch that is
// behind may have got the policy Retain since. That the watch reported the claim's deletion proves
// nothing: etcd may have been restored since. Nor does the PV's phase: a PV stays Released for a
// moment after it got its next claim.
func (p *PVs) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	b := p.backendOf(pv)
	if b != nil {
		if pool, _ := b.PoolOf(pv); pool != nil && pool.Ready() != nil {
			return pool.Ready() // without a request: it is tried twice a minute while the disk is away
		}
	}
	pv, err := p.stillDeleted(ctx, pv)
	if err != nil {
		return err
	}
	claim, err := live.ClaimOf(ctx, p.Client, pv)
	if err != nil {
		return err
	}
	if b = p.backendOf(pv); b != nil {
		p.askNodes(ctx, b, pv, 0)
	}
	d, err := p.deletable(pv, claim)
	if err != nil || d.vanished {
		return err
	}
	err = d.pool.DeleteIf(d.name, func(now volume.Volume) error { // its claim may have changed since
		if err := d.backend.matches(now, pv); err != nil {
			return err
		}
		d.object.Recorded, d.object.RecordedCluster = now.PVUID, now.Cluster
		return p.mayDelete(pv, d.object)
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", p.Node.Name(), err)
	}
	p.Changed(d.pool)
	p.claims.Retry()
	return nil
}

// stillDeleted returns a PV as the API server has it. The error is a Kept if it is gone, or another PV
// has its name, or if it is not Released any more, or has another policy than Delete: the watch then
// reports that, and the PV is decided about again.
func (p *PVs) stillDeleted(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	now, err := live.PV(ctx, p.Client, pv.Name)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.UID != pv.UID:
		return nil, Kept{"the PV is gone"}
	case now.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return nil, Kept{fmt.Sprintf("its policy is %s now", now.Spec.PersistentVolumeReclaimPolicy)}
	case !contract.Released(now):
		return nil, Kept{fmt.Sprintf("it is %s now", now.Status.Phase)}
	}
	return now, nil
}

// deletable decides whether the volume of a PV may be deleted. claim is the claim that the
// PV names, nil if it is gone or unknown. deletable asks no API server and changes
// nothing. The error is a Kept if the volume waits for a claim or a claim uses it, and an
// ErrNotReady while the pool is not ready. A volume whose record does not name the PV and
// its claim waits until sync has adopted or rebound it. One that is another PV object's stays.
func (p *PVs) deletable(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (d deletion, err error) {
	switch {
	case contract.ClaimUID(pv) == "": // the PV may have the phase Released all the same
		return d, Kept{"its claimRef has no claim's UID, so it waits for a claim"}
	case claim != nil && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == pv.Name):
		return d, Kept{fmt.Sprintf("claim %s/%s uses it", claim.Namespace, claim.Name)}
	}
	if d.backend = p.backendOf(pv); d.backend == nil {
		return d, p.unserved(pv)
	}
	if d.pool, d.name, err = d.backend.validate(pv); err != nil {
		return d, err
	}
	if err := d.backend.Deletable(pv); err != nil {
		return d, err
	}
	v, err := d.pool.Get(d.name)
	if errors.Is(err, volume.ErrSetAside) {
		v, err = setAside(d.pool, d.name)
	}
	switch {
	case errors.Is(err, volume.ErrNotFound):
		d.vanished, err = d.backend.vanished(pv, d.pool, d.name)
		return d, err
	case err != nil:
		return d, err
	case v.Migrating() != nil:
		return d, fmt.Errorf("PV %s: %w", pv.Name, v.Migrating())
	}
	if err := d.backend.matches(v, pv); err != nil {
		return d, err
	}
	d.object = p.object(pv, v.Record)
	return d, p.mayDelete(pv, d.object)
}
