package pvs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

// byClaim is the index of the informer by the claim that a PV is bound to.
const byClaim = "claim"

func claimKeys(obj any) ([]string, error) {
	pv, ok := obj.(*corev1.PersistentVolume)
	if !ok || !isBound(pv) {
		return nil, nil
	}
	return []string{contract.Named{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}.String()}, nil
}

func isBound(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeBound && pv.Spec.ClaimRef != nil
}

// BoundTo returns the PVs of this node, as the watch reported them last, that are bound to a claim of that
// namespace and name. There may be several: of claims that had the name one after the other.
func (p *PVs) BoundTo(claim contract.Named) (all []*corev1.PersistentVolume) {
	found, err := p.informer.GetIndexer().ByIndex(byClaim, claim.String())
	if err != nil {
		return nil
	}
	for _, obj := range found {
		if pv := obj.(*corev1.PersistentVolume); p.backendOf(pv) != nil {
			all = append(all, pv)
		}
	}
	return all
}

// CopiesHere reports whether the claim that this one names as its source is bound to a PV of this node, or
// the copy has begun here: the source may go then. It asks no disk.
func (p *PVs) CopiesHere(claim *corev1.PersistentVolumeClaim) bool {
	source, ok := contract.CopiedClaim(claim)
	return ok && (len(p.BoundTo(source)) > 0 || p.begunCopy(claim))
}

// begunCopy reports whether the volume of the claim is, or is being made as, a copy of another one.
func (p *PVs) begunCopy(claim *corev1.PersistentVolumeClaim) bool {
	name := contract.PVName(claim)
	for _, pool := range p.Pools.All() {
		if job, ok := pool.CloneJob(name); ok && job.Spec.Owner.UID == string(claim.UID) {
			return true
		}
		if r, ok := pool.Cached(name); ok && r.Source != nil && r.Owner.UID == string(claim.UID) {
			return true
		}
	}
	return false
}

// watchSources has the claims placed again whose source was bound to a PV of this node, or is not any
// more.
func (p *PVs) watchSources() error {
	changed := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if pv, ok := obj.(*corev1.PersistentVolume); ok && pv.Spec.ClaimRef != nil {
			p.claims.SourceChanged(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
		}
	}
	_, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		DeleteFunc: changed,
		UpdateFunc: func(old, now any) {
			before, _ := claimKeys(old)
			after, _ := claimKeys(now)
			if len(before) != len(after) || len(after) > 0 && before[0] != after[0] {
				changed(old)
				changed(now)
			}
		},
	})
	return err
}

// watchLabelled has the claim of a bound PV placed again when the PV appears, because it was labelled. The
// PVs of the first list are known before claims are placed.
func (p *PVs) watchLabelled() error {
	_, err := p.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, first bool) {
			pv, ok := obj.(*corev1.PersistentVolume)
			if ok && !first && isBound(pv) && p.IsLocal(pv.Name) {
				p.claims.BoundHere(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID)
			}
		},
	})
	return err
}

// topicLeftOut is of the event about what a copy lacks.
const topicLeftOut = "copy incomplete"

// reportLeftOut records an event on the claim of a copy about what the copy lacks, and notes in the
// volume's record that the API server has it. The volume is bound to the PV. It does nothing if the copy
// lacks nothing, or was reported.
// The error means that the API server has no such event yet.
func (p *PVs) reportLeftOut(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, v volume.Volume) error {
	claim := ownerOf(pv)
	if v.LeftOut == "" || v.Source == nil || claim.UID == "" || pv.Status.Phase == corev1.VolumeReleased {
		return nil
	}
	ref := events.Claim(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: claim.Namespace, Name: claim.Name, UID: types.UID(claim.UID)}})
	p.Events.Warn(ctx, ref, topicLeftOut, events.CopyIncomplete, fmt.Sprintf(
		"node %s: the copy of volume %s lacks what is not copied: %s", p.Node.Name(), v.Source.Volume, v.LeftOut))
	if !p.Events.Exists(ctx, ref, topicLeftOut) {
		return fmt.Errorf("the claim of volume %s has no event yet about what the copy lacks", v.Name)
	}
	return onlyNotReady(pool.Reported(v.Name, v.LeftOut))
}
