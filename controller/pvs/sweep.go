package pvs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

const (
	sweepEvery = time.Hour
	// sweepOthers is the pause where other provisioners' PVs are taken over,
	// which nothing else brings, nor what their users write on them.
	sweepOthers = 5 * time.Minute
	// wakePause is the pause before a sweep that was requested. It doubles
	// with every one that found nothing: a pod whose volume is gone for good
	// asks for ever, and the cluster may have many PVs.
	wakePause = 2 * time.Second
	// labelPause is the pause before PVs are labelled whose pool was not ready.
	labelPause = 10 * time.Second
)

// Sweep finds PVs that carry our names and this node but not our label: made
// by an older provisioner, by a backup tool, by hand. It remembers them, for
// what they say of the pool. Nothing is changed.
//
// It reads every PV of the cluster, a page at a time, so it runs seldom.
func (p *PVs) Sweep(ctx context.Context) error {
	var unlabelled, migratable []corev1.PersistentVolume
	err := live.EachPV(ctx, p.client, func(pv *corev1.PersistentVolume) bool {
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
		return fmt.Errorf("look for PVs that older provisioners made: %w", err)
	}
	p.unlabelled.Store(&unlabelled)
	p.migratable.Store(&migratable)
	return nil
}

func (p *PVs) lacksLabel(pv *corev1.PersistentVolume) bool {
	b := p.backendOf(pv)
	return b != nil && pv.Labels[class.LabelNode] != class.LabelValue(p.node.Name()) && b.ofThisNode(pv)
}

// label gives the PVs of the last sweep our label, so that the watch brings
// them and they are adopted. One that only pretends to be ours is left alone.
// It reports whether some have to wait for their pool.
func (p *PVs) label(ctx context.Context) (later bool) {
	if !p.node.MayPatchPVs() {
		return false // they are watched without the label
	}
	for _, pv := range *p.unlabelled.Load() {
		b := p.backendOf(&pv)
		if pool, _ := b.names(&pv); pool != nil && pool.Ready() != nil {
			later = true
			continue
		}
		if err := p.checkUnlabelled(b, &pv); err != nil {
			p.refuse(ctx, &pv, err)
			continue
		}
		if err := p.patchMeta(ctx, &pv, "labels", class.LabelNode, class.LabelValue(p.node.Name())); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot label a PV that an older provisioner made", "PV", pv.Name)
		}
	}
	return later
}

// patchMeta sets one label or annotation of a PV. It does nothing where the PV
// is gone, or where another one has its name by now.
func (p *PVs) patchMeta(ctx context.Context, pv *corev1.PersistentVolume, field, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pv.UID,
		field: map[string]string{key: value},
	}})
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// checkUnlabelled returns nil where the PV is one that we or the older provisioner
// could have made.
func (p *PVs) checkUnlabelled(b *backend, pv *corev1.PersistentVolume) error {
	pool, name, err := b.validate(pv)
	if err != nil {
		return err
	}
	if v, err := pool.Get(name); err == nil {
		if err := b.matches(v, pv); !errors.As(err, new(claimMismatch)) {
			return err
		}
		return nil // once it is watched, it is seen whether that is its next claim
	}
	if b.labelsUnchecked {
		return nil
	}
	return b.adoptable(pv, pool, name)
}

// sweepForever sweeps at start and then about once an hour; the jitter keeps
// the nodes of a cluster from doing it all at once.
func (p *PVs) sweepForever(ctx context.Context) {
	backoff := wakePause
	for {
		every := sweepEvery
		if len(p.otherProvisioners) > 0 {
			every = sweepOthers
		}
		pause := every + rand.N(every/2)
		if p.label(ctx) {
			pause = labelPause // label them as soon as the pool is back
		}
		if len(*p.unlabelled.Load()) > 0 {
			backoff = wakePause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-p.wake:
			if !sleep.For(ctx, backoff) {
				return
			}
			backoff = min(2*backoff, sweepEvery)
		}
		if err := p.Sweep(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Sweep failed; it is tried again within two hours")
		}
	}
}

// Expected says what the PVs of this node, of both shapes, say of a pool: whose
// it must be, and which directories must be there before one may be founded.
// It is asked from when Run opens the pools on.
func (p *PVs) Expected(of *volume.Pool) pooldir.Expected {
	var e pooldir.Expected
	ids := map[string]bool{}
	add := func(pv *corev1.PersistentVolume) {
		b := p.backendOf(pv)
		if b == nil {
			return
		}
		pool, directory := b.names(pv)
		if pool != of {
			return
		}
		if id := pv.Annotations[class.AnnPool]; id != "" {
			ids[id] = true
		} else {
			e.Volumes = append(e.Volumes, directory)
		}
	}
	for _, obj := range p.informer.GetStore().List() {
		add(obj.(*corev1.PersistentVolume))
	}
	for i := range *p.unlabelled.Load() {
		add(&(*p.unlabelled.Load())[i])
	}
	for id := range ids {
		e.IDs = append(e.IDs, id)
	}
	return e
}
