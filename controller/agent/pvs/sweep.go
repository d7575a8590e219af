package pvs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

const (
	sweepEvery = time.Hour
	// allEvery is the least pause between two sweeps of all PVs that are not requested. The others list
	// PVs without the label: the watch reports a PV whose label another client changed.
	allEvery = 24 * time.Hour
	// sweepOften is the pause if PVs of other provisioners are migrated, which have no node label, so
	// that the watch does not report them, and after a sweep that failed.
	sweepOften = 5 * time.Minute
	// wakePause is the pause before a requested sweep. It doubles after each sweep that
	// found nothing: a pod whose volume is gone requests sweeps forever, and the cluster
	// may have many PVs. A request never delays the sweep that is due without it.
	wakePause = 2 * time.Second
)

// labelPause is the pause before PVs are labelled again if a pool was not ready.
var labelPause = timing.Scaled(10 * time.Second)

// Sweep finds PVs of this node without the node label, and PVs of other provisioners: of an older
// provisioner, a backup tool or an administrator. It keeps them in memory, and changes nothing.
//
// It reads every PV of the cluster, a page at a time, so it runs rarely.
func (p *PVs) Sweep(ctx context.Context) error { return p.gather(ctx, "", nil) }

// sweepUnlabelled is Sweep for the PVs without the node label. What the last sweep found of PVs with
// the label of another node stays.
func (p *PVs) sweepUnlabelled(ctx context.Context) error {
	known := slices.DeleteFunc(slices.Clone(*p.unlabelled.Load()), func(pv corev1.PersistentVolume) bool {
		return pv.Labels[contract.LabelNode] == ""
	})
	return p.gather(ctx, "!"+contract.LabelNode, known)
}

// gather lists PVs for a sweep, and adds the unlabelled ones to those that are known.
func (p *PVs) gather(ctx context.Context, selector string, unlabelled []corev1.PersistentVolume) error {
	var migratable []corev1.PersistentVolume
	_, err := live.ListPVs(ctx, p.Client, selector, func(pv *corev1.PersistentVolume) bool {
		pv.ManagedFields = nil
		switch {
		case p.isMigratable(pv):
			migratable = append(migratable, *pv)
		case p.lacksLabel(pv):
			unlabelled = append(unlabelled, *pv)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("list PVs without the node label: %w", err)
	}
	p.unlabelled.Store(&unlabelled)
	p.migratable.Store(&migratable)
	return nil
}

// lacksLabel reports whether a PV names this node but lacks its label. The PV is not validated.
func (p *PVs) lacksLabel(pv *corev1.PersistentVolume) bool {
	b := p.backendOf(pv)
	return b != nil && pv.Labels[contract.LabelNode] != contract.LabelValue(p.Node.Name()) && b.OfThisNode(pv)
}

// label writes the node label to the PVs that the last sweep found without it, so that the
// watch reports them. It records an event on a PV that it refuses. It reports whether it wrote
// a label, and whether some PVs must wait until their pool is ready.
func (p *PVs) label(ctx context.Context) (labelled, later bool) {
	if !p.Node.MayPatchPVs() {
		return false, false // watchPVs needs no labels then
	}
	for _, pv := range *p.unlabelled.Load() {
		if now := p.Saved(pv.Name); now != nil && !p.lacksLabel(now) {
			continue // it has the label by now; without the permission, all PVs were watched
		}
		b := p.backendOf(&pv)
		if pool, _ := b.PoolOf(&pv); pool != nil && pool.Ready() != nil {
			later = later || pool.NotOffered() == ""  // one that is not offered is not so until the next start
			p.warnUndeletable(ctx, &pv, pool.Ready()) // the library does not see it without the label
			continue
		}
		p.askNodes(ctx, b, &pv, resync)
		if err := p.checkUnlabelled(b, &pv); err != nil {
			p.refuse(ctx, &pv, err)
			continue
		}
		label := map[string]string{contract.LabelNode: contract.LabelValue(p.Node.Name())}
		if err := p.patchMeta(ctx, &pv, "labels", label); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot label a PV of this node", "PV", pv.Name)
			continue
		}
		labelled = true
	}
	return labelled, later
}

// refusedFor is how long the API server is not asked again for a change of a PV that it refused until
// something else changes, such as a policy of an older version: each PV of the node may need that change.
var refusedFor = timing.Scaled(10 * time.Minute)

// patchMeta sets labels or annotations of a PV, from a map of strings; nil removes one. It does
// nothing if the PV is gone or if another PV has its name by now. It records an event if the API server
// refuses the change, and returns that error for refusedFor without a request.
func (p *PVs) patchMeta(ctx context.Context, pv *corev1.PersistentVolume, field string, values any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pv.UID,
		field: values,
	}})
	if err != nil {
		return err
	}
	change := pv.Name + string(patch)
	if before, ok := p.refused.Get(change); ok {
		return before.(error)
	}
	_, err = p.Client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if live.Permanent(err) {
		p.refused.Add(change, err, refusedFor)
		p.Events.Warn(ctx, events.PV(pv), "unwritten "+field, events.VolumeRefused, fmt.Sprintf("node %s cannot write %s of "+
			"this PV, which it needs: %v; correct what refuses that: the agent tries again every few minutes", p.Node.Name(),
			field, err))
	}
	return live.IgnoreMoved(err)
}

// checkUnlabelled returns nil if a PV without the node label may get it: the PV is valid,
// and either a record names it or its directory may be adopted.
func (p *PVs) checkUnlabelled(b *backend, pv *corev1.PersistentVolume) error {
	pool, name, err := b.validate(pv)
	if err != nil {
		return err
	}
	if v, err := pool.Get(name); err == nil {
		if err := b.matches(v, pv); !errors.As(err, new(claimMismatch)) {
			return err
		}
		return nil // sync decides later whether that is the next claim
	}
	if b.labelsUnchecked() {
		return nil
	}
	return b.Adoptable(pv, pool, name)
}

// sweepForever labels the PVs of the last sweep, and then sweeps about once an hour, every few minutes
// if PVs of other provisioners are migrated, or when SweepSoon requests it. A sweep that was not
// requested lists only PVs without the node label, but once a day all: every agent of the cluster
// does the same. Jitter spreads the sweeps of the nodes.
func (p *PVs) sweepForever(ctx context.Context) {
	backoff, every := wakePause, p.sweepEvery()
	due, all := time.Now().Add(every+rand.N(every/2)), time.Now().Add(allEvery+rand.N(allEvery/2))
	for {
		labelled, later := p.label(ctx)
		if labelled {
			backoff = wakePause
		}
		pause := time.Until(due)
		if later {
			pause = min(pause, labelPause) // label them as soon as the pool is back
		}
		requested := false
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			if later && time.Now().Before(due) {
				continue // from memory
			}
			backoff = wakePause // there was no request for a whole pause
		case <-p.wake:
			if requested = true; !sleep.For(ctx, min(backoff, time.Until(due))) {
				return
			}
			backoff = sleep.Doubled(backoff, wakePause, sweepEvery)
		}
		if every = p.sweepEvery(); !p.sweep(ctx, requested || !time.Now().Before(all)) && ctx.Err() == nil {
			every = sweepOften
		} else if !time.Now().Before(all) {
			all = time.Now().Add(allEvery + rand.N(allEvery/2))
		}
		due = time.Now().Add(every + rand.N(every/2))
	}
}

// sweep is Sweep, or lists only PVs without the node label. It reports whether it succeeded.
func (p *PVs) sweep(ctx context.Context, all bool) bool {
	sweep := p.Sweep
	if !all {
		sweep = p.sweepUnlabelled
	}
	err := sweep(ctx)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot sweep; the agent retries within eight minutes")
	}
	return err == nil
}

// sweepEvery returns the least pause between two sweeps without a request.
func (p *PVs) sweepEvery() time.Duration {
	if len(p.Others) > 0 {
		return sweepOften
	}
	return sweepEvery
}

// Expected returns what the PVs of this node name in a pool: the pool UUIDs, and the directories of
// PVs without a UUID. A new pool must not be created where these are expected. PVs that an
// administrator gave up for this Node name none. The caller has swept before.
//
// A PV that leaves the watch is expected until the API server has said that it is gone, or not this
// node's: a tool may have changed its label while the pool's disk is away.
func (p *PVs) Expected(of *volume.Pool) pooldir.Expected {
	var e pooldir.Expected
	for _, pv := range p.naming(of) {
		_, directory := p.Names(pv)
		switch id := pv.Annotations[contract.AnnPool]; {
		case pv.Annotations[contract.AnnGivenUp] == p.Node.UID() && p.Node.UID() != "":
		case id == "":
			e.Volumes = append(e.Volumes, directory)
		case !slices.Contains(e.IDs, id):
			e.IDs = append(e.IDs, id)
		}
	}
	return e
}

// naming returns the PVs that name the pool, and those that did at an earlier call and have left the
// watch since. It has each of the latter handled, once, because the handling calls Expected again;
// vanished ends that.
func (p *PVs) naming(of *volume.Pool) (all []*corev1.PersistentVolume) {
	p.mu.Lock()
	defer p.mu.Unlock()
	there, now := map[string]bool{}, map[string]namedPV{}
	for _, pv := range p.All() {
		there[pv.Name] = true
		if pool, _ := p.Names(pv); pool == of {
			all, now[pv.Name] = append(all, pv), namedPV{pv: pv}
		}
	}
	for name, before := range p.named[of] {
		if there[name] {
			continue
		}
		if !before.left {
			p.queue.Add(name)
		}
		all, now[name] = append(all, before.pv), namedPV{before.pv, true}
	}
	p.named[of] = now
	return all
}

// namedPV is a PV that names a pool, and whether it has left the watch.
type namedPV struct {
	pv   *corev1.PersistentVolume
	left bool
}

// vanished notes that a PV is gone, or not this node's.
func (p *PVs) vanished(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, named := range p.named {
		delete(named, name)
	}
}
