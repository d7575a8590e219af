package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

// records keeps the pool's records in step with the PVs of this node: a PV
// that is seen binds its volume, or adopts it where an older provisioner made
// it. PVs that are not what they say are left alone, with an event.
type records struct {
	*Controller
	queue workqueue.TypedRateLimitingInterface[string]
}

// newRecords returns the records, which also look at a PV when one of the claims
// changes that it is or was bound to.
func (c *Controller) newRecords(claims cache.SharedIndexInformer) (*records, error) {
	r := &records{Controller: c, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast))}
	add := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			r.queue.Add(key)
		}
	}
	_, err := c.pvs.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, obj any) { add(obj) },
	})
	if err != nil {
		return nil, err
	}
	_, err = claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.claimChanged,
		UpdateFunc: func(_, obj any) { r.claimChanged(obj) },
		DeleteFunc: r.claimChanged,
	})
	return r, err
}

// claimChanged looks at the claim's PV if that was made for another claim, or is
// another claim's now.
func (r *records) claimChanged(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.VolumeName == "" {
		return
	}
	pv := r.savedPV(claim.Spec.VolumeName)
	if pv != nil && (pv.Name != class.PVName(claim) || class.ClaimUID(pv) != string(claim.UID)) {
		r.queue.Add(pv.Name)
	}
}

// run handles PVs until the context ends.
func (r *records) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		r.queue.ShutDown()
	}()
	for {
		name, stop := r.queue.Get()
		if stop {
			return
		}
		if err := r.sync(ctx, name); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot bind a PV to its volume yet", "PV", name, "err", err)
			r.queue.AddRateLimited(name)
		} else {
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

func (r *records) sync(ctx context.Context, name string) error {
	pv, err := r.current(ctx, name)
	if pv == nil || err != nil {
		return err
	}
	s := r.shapeOf(pv)
	if s == nil {
		return nil
	}
	pool, directory, err := s.examine(pv)
	if err != nil {
		r.disown(ctx, pv, err)
		return nil
	}
	r.remind(ctx, s, pv)
	v, err := pool.Get(directory)
	switch {
	case errors.Is(err, volume.ErrNotFound):
		return r.syncUnknown(ctx, s, pv, pool, directory)
	case errors.Is(err, volume.ErrDamaged), errors.Is(err, volume.ErrInvalid): // the name is another pool's
		r.disown(ctx, pv, err)
		return nil
	case err != nil:
		return err
	case v.Held() != nil:
		return nil // the migration sees to both PVs
	}
	v, err = r.follow(ctx, s, pv, pool, v)
	switch {
	case errors.Is(err, errUnsettled), errors.Is(err, volume.ErrNotReady):
		return err
	case err != nil:
		r.disown(ctx, pv, err)
		return nil
	case v.State == volume.Deleting:
		return nil
	}
	changed, err := pool.Bind(directory, r.binding(pv, cmp.Or(ownerOf(pv), v.Owner)))
	if err != nil {
		return err
	}
	if changed {
		r.changed(pool) // which has it written
	}
	return r.namePool(ctx, pv, pool)
}

// binding is what the PV says about a volume of that claim.
func (c *Controller) binding(pv *corev1.PersistentVolume, owner volume.Owner) volume.Binding {
	return volume.Binding{
		PV: pv.Name, Owner: owner, Cluster: c.info.Cluster(),
		ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
	}
}

// remind says once that a released PV stays, where its policy tells its user
// that it goes.
func (r *records) remind(ctx context.Context, s shape, pv *corev1.PersistentVolume) {
	if pv.DeletionTimestamp != nil || !class.Leaving(pv) {
		return
	}
	if err := s.deletes(pv); err != nil {
		r.events.Warn(ctx, events.PV(pv), "deletes", events.VolumeFailedDelete, fmt.Sprintf("node %s: %v", r.node, err))
	}
}

// namePool writes the pool's UUID on the PV of an adopted volume, so that it
// guards the pool like any other. It does nothing where the PV has one.
func (r *records) namePool(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool) error {
	if pv.Annotations[class.AnnPool] != "" || !r.info.MayPatchPVs() {
		return nil
	}
	return r.patchMeta(ctx, pv, "annotations", class.AnnPool, pool.ID())
}

// current returns the PV as the API server has it, nil where there is none. Once
// the library has saved a PV it puts its own copy into the store, without UID,
// maybe over what the watch brought meanwhile; nothing would bring that again.
func (r *records) current(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	if pv := r.savedPV(name); pv != nil {
		return pv, nil
	}
	if _, ok, err := r.pvs.GetStore().GetByKey(name); !ok || err != nil {
		return nil, err
	}
	return live.PV(ctx, r.client, name)
}

// syncUnknown adopts the directory of a PV that has no record. A PV that is on
// its way out and has no directory either is just that. The PV in memory may be
// older than the volume's deletion, so the API server is asked before anybody is
// warned.
func (r *records) syncUnknown(ctx context.Context, s shape, pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	over := func(pv *corev1.PersistentVolume) bool {
		return class.Leaving(pv) && s.deletes(pv) == nil && nothingLeft(pv, pool, directory)
	}
	if over(pv) {
		return nil
	}
	err := r.adopt(ctx, s, pv, pool, directory)
	if err != nil && !errors.Is(err, volume.ErrNotReady) {
		now, unread := live.PV(ctx, r.client, pv.Name)
		if unread != nil {
			return unread
		}
		if now == nil || now.UID != pv.UID || over(now) {
			return nil
		}
	}
	switch {
	case errors.Is(err, volume.ErrNotReady):
		return err
	case errors.Is(err, volume.ErrNotFound) && pv.DeletionTimestamp != nil:
		return nil
	case err != nil:
		r.disown(ctx, pv, err)
		return nil
	}
	return r.namePool(ctx, pv, pool)
}

// disown says that the PV is left alone, and why.
func (c *Controller) disown(ctx context.Context, pv *corev1.PersistentVolume, why error) {
	c.events.Warn(ctx, events.PV(pv), "refused", events.VolumeRefused, fmt.Sprintf(
		"node %s leaves this PV and its data alone: %v; correct the PV, or delete it once its data is safe", c.node, why))
}

// adopt gives the directory of a PV that was made without us a record. It is
// promised what the claim asked for: the PV's own capacity may be the whole
// disk's. Where there is no claim, the shape says what.
func (c *Controller) adopt(ctx context.Context, s shape, pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	if err := s.adoptable(pv, pool, directory); err != nil {
		return err
	}
	return c.take(ctx, pv, pool, directory, s.unclaimed(pv))
}

// take makes the record of a directory that is the PV's. unclaimed is what is
// promised where there is no claim, in bytes.
func (c *Controller) take(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, directory string, unclaimed int64) error {
	bytes, err := c.claimed(ctx, pv, unclaimed)
	if err != nil {
		return err
	}
	_, err = pool.Adopt(volume.Spec{
		Name: directory, Bytes: bytes, PV: pv.Name, Cluster: c.info.Cluster(), Owner: ownerOf(pv),
		ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
	})
	if err == nil {
		c.changed(pool)
		klog.FromContext(ctx).Info("Adopted", "PV", pv.Name, "pool", pool.Path(), "directory", directory, "bytes", bytes)
	}
	return err
}

// claimed is what the PV's claim asks for, in bytes; unclaimed without one.
func (c *Controller) claimed(ctx context.Context, pv *corev1.PersistentVolume, unclaimed int64) (int64, error) {
	if waitsForClaim(pv) {
		return unclaimed, nil
	}
	claim, err := live.Claim(ctx, c.client, ownerOf(pv))
	if claim == nil || err != nil {
		return unclaimed, err
	}
	return class.Bytes(claim), nil
}

// ownerOf is the claim that the PV is bound to, or nobody.
func ownerOf(pv *corev1.PersistentVolume) volume.Owner {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return volume.Owner{}
	}
	return volume.Owner{Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)}
}
