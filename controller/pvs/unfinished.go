package pvs

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/controller/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// unfinishedEvery is how often volumes without a PV are checked.
var unfinishedEvery = timing.Scaled(time.Minute)

// unfinishedAge is the age from which a volume must have a PV.
const unfinishedAge = 30 * time.Second

// rollBackForever recovers the pools, and rolls back volumes whose PV was never saved and
// whose claim is gone: the agent or the API server stopped after the directory was
// created. The recovery repeats steps that failed because the disk was full.
func (p *PVs) rollBackForever(ctx context.Context) {
	wait.UntilWithContext(ctx, p.rollBack, unfinishedEvery)
}

func (p *PVs) rollBack(ctx context.Context) {
	for _, pool := range p.pools.All() {
		p.rollBackIn(ctx, pool)
	}
}

func (p *PVs) rollBackIn(ctx context.Context, pool *volume.Pool) {
	log := klog.FromContext(ctx)
	if err := pool.Recover(); err != nil && !errors.Is(err, volume.ErrNotReady) && !errors.Is(err, volume.ErrInUse) {
		log.Error(err, "Cannot recover the pool", "pool", pool.Name())
	}
	volumes, err := pool.List()
	if err != nil {
		return // the monitor reports a pool that is not ready
	}
	for _, v := range volumes {
		if !p.unfinished(v, time.Now()) {
			continue
		}
		abandoned, err := p.abandoned(ctx, v)
		if err != nil {
			log.Error(err, "Cannot check whether a volume without a PV is still needed", "volume", v.Name)
			continue
		}
		if !abandoned {
			continue
		}
		switch err := pool.RollBack(v.Name); {
		case err == nil:
			log.Info("Removed an empty volume that no PV needs", "volume", v.Name)
			p.changed(pool)
			p.claims.Retry()
			p.SweepSoon() // another provisioner may have saved the claim's PV, which has no node label
		case errors.Is(err, fault.ErrNotEmpty):
			log.Error(err, "Kept a volume without PV and claim: it is not empty", "volume", v.Name, "path", v.Path)
		default:
			log.Error(err, "Cannot roll back an unfinished volume", "volume", v.Name)
		}
	}
}

// unfinished reports whether a volume was created for a claim, is old enough to have a
// saved PV, and the store has no PV that names it.
func (p *PVs) unfinished(v volume.Volume, now time.Time) bool {
	if v.Ephemeral || v.PV == "" {
		return false // not created for a claim
	}
	pv := p.Saved(v.PV)
	return v.State == record.Ready && now.Sub(v.Created) >= unfinishedAge && (pv == nil || namesOther(pv, v))
}

// namesOther reports whether the PV of a volume names another directory. The agent created
// the volume in one pool while the pool that had the claim's first volume was not ready, or
// another provisioner created the claim's volume at the same time.
func namesOther(pv *corev1.PersistentVolume, v volume.Volume) bool {
	path := class.DirectoryOf(pv)
	return path != "" && path != v.Path
}

// abandoned reports whether no PV will ever need the volume: its claim and its PV are gone,
// or the PV of that name is on another node or names another directory. It reads the API
// server, not a cache.
func (p *PVs) abandoned(ctx context.Context, v volume.Volume) (bool, error) {
	pv, err := live.PV(ctx, p.client, v.PV)
	if err != nil {
		return false, err
	}
	if pv != nil {
		return p.isRemote(pv) || namesOther(pv, v), nil
	}
	claim, err := live.Claim(ctx, p.client, v.Owner)
	return claim == nil && err == nil, err
}

// isRemote reports whether a PV of any backend requires another node, and no mark of it is this
// node's. It returns false for a PV that requires no node.
func (p *PVs) isRemote(pv *corev1.PersistentVolume) bool {
	if m := commonMarks(pv, p.node); m.NodeUID || m.Label.Own || pv.Annotations[class.AnnProvisionOnNode] == p.node.Name() {
		return false
	}
	hostname, node := class.Hostname(pv), class.TopologyOf(pv)
	return hostname != "" && !at(p.node).IsNamed(hostname) || node != "" && node != p.node.Name()
}
