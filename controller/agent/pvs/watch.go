package pvs

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// Watch queues a PV when the PV changes, or one of the claims that it is or was bound to.
// informer is the informer of the claims.
func (p *PVs) Watch(claims Claims, informer cache.SharedIndexInformer) error {
	p.claims, p.local = claims, informer.GetStore()
	// A PV counts as deleted if it is gone, or if it lost the label.
	if _, err := p.informer.AddEventHandler(informers.OnKey(p.queue.Add)); err != nil {
		return err
	}
	if err := errors.Join(p.watchSources(), p.watchLabelled()); err != nil {
		return err
	}
	_, err := informer.AddEventHandler(informers.OnChange(p.claimChanged))
	return err
}

// claimChanged queues the claim's PV if the PV was created for another claim, or names
// another claim now. Other PVs need no check when their claim changes.
func (p *PVs) claimChanged(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.VolumeName == "" {
		return
	}
	pv := p.Saved(claim.Spec.VolumeName)
	if pv != nil && (pv.Name != contract.PVName(claim) || contract.ClaimUID(pv) != string(claim.UID)) {
		p.queue.Add(pv.Name)
	}
}

// watchPVs returns an informer of the PVs that carry this node's label. Without permission to patch
// PVs the agent can label none, so it watches all PVs and keeps this node's.
func (p *PVs) watchPVs() cache.SharedIndexInformer {
	selector := labels.Set{contract.LabelNode: contract.LabelValue(p.Node.Name())}.String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return p.list(ctx, selector)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if p.Node.MayPatchPVs() {
				o.LabelSelector = selector
			}
			w, err := p.Client.CoreV1().PersistentVolumes().Watch(ctx, o)
			if err == nil && o.LabelSelector == "" {
				w = watch.Filter(w, p.filterWatch)
			}
			return w, err
		},
	}
	i := informers.New(lw, &corev1.PersistentVolume{}, resync)
	_ = i.SetTransform(p.compact) // it has not run
	return i
}

// compact is the transform of the informer of PVs.
func (p *PVs) compact(obj any) (any, error) {
	obj, err := informers.WithoutManagedFields(obj)
	if pv, ok := obj.(*corev1.PersistentVolume); ok {
		p.sharer.PV(pv)
	}
	return obj, err
}

func (p *PVs) list(ctx context.Context, selector string) (runtime.Object, error) {
	if !p.Node.MayPatchPVs() {
		selector = ""
	}
	var kept corev1.PersistentVolumeList
	version, err := live.ListPVs(ctx, p.Client, selector, func(pv *corev1.PersistentVolume) bool {
		if selector != "" || p.isWatched(pv) {
			kept.Items = append(kept.Items, *pv)
		}
		return true
	})
	kept.ResourceVersion = version
	return &kept, err
}

// isWatched reports whether a PV has the label of this node, or names this node without it.
func (p *PVs) isWatched(pv *corev1.PersistentVolume) bool {
	return pv.Labels[contract.LabelNode] == contract.LabelValue(p.Node.Name()) || p.lacksLabel(pv)
}

// filterWatch filters a watch of all PVs as a selector would: it reports a PV that no longer
// belongs to this node as deleted.
func (p *PVs) filterWatch(e watch.Event) (watch.Event, bool) {
	pv, ok := e.Object.(*corev1.PersistentVolume)
	switch {
	case !ok, e.Type == watch.Bookmark, p.isWatched(pv):
		return e, true
	case e.Type == watch.Modified:
		e.Type = watch.Deleted
		return e, true
	}
	return e, false
}
