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
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

const (
	// unfinishedEvery is how often volumes without a PV are looked at.
	unfinishedEvery = time.Minute
	// unfinishedAge is how long a PV is given to appear.
	unfinishedAge = 30 * time.Second
)

// rollBackForever undoes the creates that will never be finished: the agent was
// killed, or the API server away, between the directory and its PV, and the
// claim has gone meanwhile. Before, it finishes what was left half done because
// the disk was full.
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
		log.Error(err, "Cannot finish what was begun", "pool", pool.Name())
	}
	volumes, err := pool.List()
	if err != nil {
		return // the pool is not ready, which is said elsewhere
	}
	for _, v := range volumes {
		if !p.unfinished(v, time.Now()) {
			continue
		}
		abandoned, err := p.abandoned(ctx, v)
		if err != nil {
			log.Error(err, "Cannot tell whether a volume without a PV is still wanted", "volume", v.Name)
			continue
		}
		if !abandoned {
			continue
		}
		switch err := pool.RollBack(v.Name); {
		case err == nil:
			log.Info("Removed an empty volume whose claim is gone and whose PV was never saved", "volume", v.Name)
			p.changed(pool)
			p.claims.Retry()
		case errors.Is(err, fault.ErrNotEmpty):
			log.Error(err, "A volume without a PV and without a claim holds data; it is kept", "volume", v.Name, "path", v.Path)
		default:
			log.Error(err, "Cannot undo an unfinished volume", "volume", v.Name)
		}
	}
}

// unfinished reports whether the volume was made for a claim and its PV should
// have been saved by now, and is not known.
func (p *PVs) unfinished(v volume.Volume, now time.Time) bool {
	if v.Ephemeral || v.PV == "" {
		return false // not made for a claim
	}
	return v.State == volume.Ready && now.Sub(v.Created) >= unfinishedAge && p.Saved(v.PV) == nil
}

// abandoned asks the API server itself, not a cache, whether nobody will ever
// ask for the volume again: no PV of this node has its PV's name, and either the
// claim is gone or its PV is on another node.
func (p *PVs) abandoned(ctx context.Context, v volume.Volume) (bool, error) {
	pv, err := live.PV(ctx, p.client, v.PV)
	if err != nil {
		return false, err
	}
	if pv != nil {
		return p.isRemote(pv), nil
	}
	claim, err := live.Claim(ctx, p.client, v.Owner)
	return claim == nil && err == nil, err
}

// isRemote reports whether a PV, of whatever shape, is clearly another node's.
func (p *PVs) isRemote(pv *corev1.PersistentVolume) bool {
	hostname, node := class.Hostname(pv), class.TopologyOf(pv)
	return hostname != "" && hostname != p.node.Hostname() && hostname != p.node.Name() || node != "" && node != p.node.Name()
}
