package pvs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// unfinishedEvery is how often volumes without a PV are checked.
var unfinishedEvery = timing.Scaled(time.Minute)

// unfinishedAge is the age from which a volume must have a PV.
const unfinishedAge = 30 * time.Second

// rollBackForever rolls back volumes whose PV was never saved and whose claim is gone: the agent or
// the API server stopped after the directory was created.
func (p *PVs) rollBackForever(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, pool := range p.Pools.All() {
			p.rollBackIn(ctx, pool)
		}
	}, unfinishedEvery)
}

func (p *PVs) rollBackIn(ctx context.Context, pool *volume.Pool) {
	log := klog.FromContext(ctx)
	volumes, err := pool.List()
	if err != nil {
		return // the monitor reports a pool that is not ready
	}
	for _, v := range volumes {
		if !p.unfinished(pool, v) || p.isAwaited(v) {
			continue
		}
		abandoned, err := p.abandoned(ctx, pool, v)
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
			p.Changed(pool)
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
func (p *PVs) unfinished(pool *volume.Pool, v volume.Volume) bool {
	if v.Ephemeral || v.PV == "" || v.State != record.Ready {
		return false // not created for a claim, or bound, or being deleted
	}
	if pv := p.Saved(v.PV); pv != nil && !p.NamesOther(pv, pool, v.Name) {
		return false
	}
	return p.Age(pool, v) >= unfinishedAge
}

// isAwaited reports whether the watch still has the volume's claim, which has no PV: a webhook may refuse
// the PV for days, and API requests for each claim would not end meanwhile.
func (p *PVs) isAwaited(v volume.Volume) bool {
	if p.local == nil || p.Saved(v.PV) != nil {
		return false
	}
	obj, _, err := p.local.GetByKey(v.Owner.Namespace + "/" + v.Owner.Name)
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	return err == nil && ok && string(claim.UID) == v.Owner.UID && claim.Spec.VolumeName == ""
}

// sighting is a volume that was made while the clock was ahead, and when Age was first called.
type sighting struct {
	volume record.Record
	at     time.Time
}

// sightedMost bounds the memory for sightings.
const sightedMost = 10_000

// Age returns how long a volume of the pool has existed, or less. If the clock was ahead when the
// volume was made, its time proves nothing: Age then returns for how long it has been called for
// the volume, by a clock that no user can set.
func (p *PVs) Age(pool *volume.Pool, v volume.Volume) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := place{pool, v.Name}
	if age := time.Since(v.Created); age >= 0 {
		delete(p.sighted, at)
		return age
	}
	first, ok := p.sighted[at]
	if !ok || !first.volume.Same(v.Record) {
		if len(p.sighted) >= sightedMost {
			clear(p.sighted)
		}
		first = sighting{v.Record, time.Now()}
		p.sighted[at] = first
	}
	return time.Since(first.at)
}

// NamesOther reports whether a PV of the name that is in a volume's record certainly names another
// volume: another directory, pool or node. Examples: the agent created the volume in one pool while
// the pool that had the claim's first volume was not ready; another provisioner created the claim's
// volume at the same time; the PV was restored elsewhere while the disk of this pool was away.
//
// A PV with the pool's UUID and the volume's directory names the volume, whatever path and node it
// has: a disk may be mounted elsewhere, or moved to another node.
func (p *PVs) NamesOther(pv *corev1.PersistentVolume, pool *volume.Pool, name string) bool {
	path, source := contract.DirectoryOf(pv), pv.Spec.CSI
	if source != nil && source.VolumeHandle != name || path != "" && !contract.Contains(path, name) {
		return true
	}
	if id := pv.Annotations[contract.AnnPool]; id != "" {
		return id != pool.ID()
	}
	return path != "" && filepath.Clean(path) != filepath.Join(pool.Path(), name) || p.isRemote(pv)
}

// abandoned reports whether no PV will ever need the volume: its claim and its PV are gone,
// or the PV of that name names another volume. It reads the API server, not a cache.
func (p *PVs) abandoned(ctx context.Context, pool *volume.Pool, v volume.Volume) (bool, error) {
	pv, err := live.PV(ctx, p.Client, v.PV)
	if err != nil {
		return false, err
	}
	if pv != nil {
		return p.NamesOther(pv, pool, v.Name), nil
	}
	claim, err := live.Claim(ctx, p.Client, v.Owner)
	return claim == nil && err == nil, err
}

// Discard removes the volume that was made for a claim and does not fit what claim and class
// request now, so that another one can be made. It removes an empty directory by rmdir(2), after
// the record, and only if no PV ever named it: the record was never bound, is old enough to have a
// saved PV, and the API server has no PV of that name. The error is why the volume stays.
func (p *PVs) Discard(ctx context.Context, pool *volume.Pool, v volume.Volume,
	claim *corev1.PersistentVolumeClaim) error {
	name := contract.PVName(claim)
	switch {
	case v.State != record.Ready, v.Adopted, v.Ephemeral, v.Owner.UID != string(claim.UID), v.PV != "" && v.PV != name:
		return fmt.Errorf("the volume at %s stays, because a PV had it, or it was made for another claim", v.Path)
	case p.Age(pool, v) < unfinishedAge:
		return fmt.Errorf("the empty volume at %s, which does not fit, is removed and made anew when it is %s old, because "+
			"its PV may still be saved", v.Path, unfinishedAge)
	}
	switch pv, err := live.PV(ctx, p.Client, name); {
	case err != nil:
		return err
	case pv != nil:
		return fmt.Errorf("the volume at %s stays, because PV %s exists", v.Path, name)
	}
	switch err := pool.RollBack(v.Name); {
	case errors.Is(err, fault.ErrNotEmpty):
		return fmt.Errorf("the volume at %s stays, because it is not empty: save its files elsewhere and empty it, and the "+
			"agent makes it anew", v.Path)
	case err != nil:
		return err
	}
	klog.FromContext(ctx).Info("Removed an empty volume that does not fit what its claim requests now", "volume", v.Path,
		"claim", v.Owner)
	p.Changed(pool)
	return nil
}

// isRemote reports whether a PV of any backend requires another node, and no mark of it is this
// node's. It returns false for a PV that requires no node.
func (p *PVs) isRemote(pv *corev1.PersistentVolume) bool {
	if m := backends.CommonMarks(pv, p.Node); m.NodeUID || m.Label.Own ||
		pv.Annotations[contract.AnnProvisionOnNode] == p.Node.Name() {
		return false
	}
	hostname, node := contract.Hostname(pv), contract.TopologyOf(pv)
	return hostname != "" && !backends.At(p.Node).IsNamed(hostname) || node != "" && node != p.Node.Name()
}
