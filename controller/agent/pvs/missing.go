package pvs

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// reportPool reports on the PV that its pool has not been open on this node for reportAfter,
// if the Node's annotation gives the volume up: the operator gives up only what both name. It takes the
// report back while another process has a pool at the PV's path.
func (p *PVs) reportPool(ctx context.Context, pv *corev1.PersistentVolume) error {
	id := pv.Annotations[contract.AnnPool]
	if id == "" || !identity.GivesUp(p.Node.GiveUp(), p.Node.UID(), pv.Annotations[contract.AnnNodeUID], id) {
		return nil
	}
	if p.notOpenFor(id) < reportAfter {
		return nil
	}
	missing := identity.PoolMissing(p.Node.UID())
	switch pool, _ := p.Names(pv); {
	case pool != nil && pool.NotOffered() != "":
		return nil // by a setting, which proves nothing about its disk
	case pool != nil && errors.As(pool.Ready(), new(*fault.HeldError)):
		// A pool is there, which may be this one: the disk came back, and another agent has it first.
		if pv.Annotations[contract.AnnMissing] == missing {
			return p.patchMeta(ctx, pv, "annotations", map[string]any{contract.AnnMissing: nil})
		}
		return nil
	}
	return p.report(ctx, pv, missing)
}

// notOpenFor returns for how long calls found the pool with that UUID not open, 0 if it is
// open. The caller calls it at least once every resync.
func (p *PVs) notOpenFor(id string) time.Duration {
	open := slices.ContainsFunc(p.Pools.All(), func(p *volume.Pool) bool { return p.ID() == id && p.Ready() == nil })
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		delete(p.notOpen, id)
		return 0
	}
	since, ok := p.notOpen[id]
	if !ok {
		since = time.Now()
		p.notOpen[id] = since
	}
	return time.Since(since)
}

// reportVolume reports on the PV that its pool is open and does not have the volume, if the
// PV names an earlier Node: the pool came to this one without the volume.
func (p *PVs) reportVolume(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool,
	directory string) error {
	if uid := pv.Annotations[contract.AnnNodeUID]; uid == "" || uid == p.Node.UID() || !volumeGone(pv, pool, directory) {
		return nil
	}
	return p.report(ctx, pv, identity.VolumeIsMissing(p.Node.UID()))
}

func (p *PVs) report(ctx context.Context, pv *corev1.PersistentVolume, missing string) error {
	if pv.Annotations[contract.AnnMissing] == missing || !p.Node.MayPatchPVs() {
		return nil
	}
	return p.patchMeta(ctx, pv, "annotations", map[string]any{contract.AnnMissing: missing})
}
