package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

// PVsConfig is what PVs need. Others and HostPath may be empty, and CSIDriver; all
// else is required.
type PVsConfig struct {
	Client kubernetes.Interface
	Node   Node
	Events *events.Recorder
	Pools  *volume.Pools // of the node
	// HostPath is the pool of hostPath PVs, one of Pools; nil: they are not served.
	HostPath *volume.Pool
	// CSIDriver is the driver of the CSI PVs; "": they are not served.
	CSIDriver string
	// Others are the provisioners whose PVs of this node may be taken over; see
	// PVs.Others. If there are any, all PVs are swept every few minutes.
	Others []class.Other
	// Changed is called after a volume of the pool was adopted, bound or removed. It
	// must not block.
	Changed func(*volume.Pool)
}

// Node is the node of the PVs, its cluster, and what the agent may do there.
type Node interface {
	Name() string
	Hostname() string // the label kubernetes.io/hostname
	Cluster() string  // the cluster's identity, "" if unknown
	MayPatchPVs() bool
}

// Claims are the claims of this node.
type Claims interface {
	// IsDeleted reports whether the watch has seen the deletion of that claim.
	IsDeleted(types.UID) bool
	// Retry has claims that were refused for want of space seen again.
	Retry()
}

// PVs are the PVs of one node. They keep the records of the pools in step with
// them: a PV that is seen binds its volume, or adopts it where an older provisioner
// made it. PVs that are not what they say are left alone, with an event.
//
// Make them with NewPVs. The caller runs the Informer, then calls Sweep, Watch and
// Run, in this order.
type PVs struct {
	client   kubernetes.Interface
	node     Node
	events   *events.Recorder
	pools    *volume.Pools
	backends []*backend // that are served: one or two
	others   []class.Other
	changed  func(*volume.Pool)

	claims   Claims // set by Watch
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[string] // names of PVs
	wake     chan struct{}                                // to sweep soon
	older    atomic.Pointer[[]corev1.PersistentVolume]    // PVs of ours without our label, as last swept
	theirs   atomic.Pointer[[]corev1.PersistentVolume]    // PVs of other provisioners on this node, likewise
}

// NewPVs returns PVs that are not watched yet.
func NewPVs(c PVsConfig) *PVs {
	p := &PVs{
		client: c.Client, node: c.Node, events: c.Events, pools: c.Pools, others: c.Others, changed: c.Changed,
		wake: make(chan struct{}, 1), queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast)),
	}
	p.informer = p.watchPVs()
	if c.HostPath != nil {
		p.backends = append(p.backends, newHostPathBackend(c.Node, c.HostPath))
	}
	if c.CSIDriver != "" {
		p.backends = append(p.backends, newCSIBackend(c.Node, c.CSIDriver, c.Pools))
	}
	p.older.Store(&[]corev1.PersistentVolume{})
	p.theirs.Store(&[]corev1.PersistentVolume{})
	return p
}

// Informer returns the informer of this node's PVs. Some of its PVs may not be
// saved yet.
func (p *PVs) Informer() cache.SharedIndexInformer { return p.informer }

// Watch has a PV handled when it changes, or one of the claims that it is or was
// bound to. The informer is that of the claims.
func (p *PVs) Watch(claims Claims, informer cache.SharedIndexInformer) error {
	p.claims = claims
	add := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			p.queue.Add(key)
		}
	}
	_, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, obj any) { add(obj) },
	})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.claimChanged,
		UpdateFunc: func(_, obj any) { p.claimChanged(obj) },
		DeleteFunc: p.claimChanged,
	})
	return err
}

// Run handles PVs until the context ends.
func (p *PVs) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, part := range []func(context.Context){p.handle, p.handle, p.sweepForever, p.finishForever} {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}

// Unknown has the PVs swept soon: a volume without a record is asked for, and its
// PV may carry no label of ours. It never blocks.
func (p *PVs) Unknown() { sleep.Wake(p.wake) }

// Saved returns the PV of that name if it is one of this node's and the API
// server has it. The library puts PVs into the store before they are saved;
// those have no UID yet.
func (p *PVs) Saved(name string) *corev1.PersistentVolume {
	obj, ok, err := p.informer.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	if pv := obj.(*corev1.PersistentVolume); pv.UID != "" {
		return pv
	}
	return nil
}

// IsLocal reports whether the PV of that name is one of this node's that is
// served here.
func (p *PVs) IsLocal(name string) bool {
	pv := p.Saved(name)
	return pv != nil && p.backendOf(pv) != nil
}

// claimChanged looks at the claim's PV if that was made for another claim, or is
// another claim's now.
func (p *PVs) claimChanged(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.VolumeName == "" {
		return
	}
	pv := p.Saved(claim.Spec.VolumeName)
	if pv != nil && (pv.Name != class.PVName(claim) || class.ClaimUID(pv) != string(claim.UID)) {
		p.queue.Add(pv.Name)
	}
}

// handle binds the PVs of the queue until the context ends.
func (p *PVs) handle(ctx context.Context) {
	go func() {
		<-ctx.Done()
		p.queue.ShutDown()
	}()
	for {
		name, stop := p.queue.Get()
		if stop {
			return
		}
		if err := p.sync(ctx, name); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot bind a PV to its volume yet", "PV", name, "err", err)
			p.queue.AddRateLimited(name)
		} else {
			p.queue.Forget(name)
		}
		p.queue.Done(name)
	}
}

func (p *PVs) sync(ctx context.Context, name string) error {
	pv, err := p.current(ctx, name)
	if pv == nil || err != nil {
		return err
	}
	b := p.backendOf(pv)
	if b == nil {
		return nil
	}
	pool, directory, err := b.validate(pv)
	if err != nil {
		p.disown(ctx, pv, err)
		return nil
	}
	p.remind(ctx, b, pv)
	v, err := pool.Get(directory)
	switch {
	case errors.Is(err, volume.ErrNotFound):
		return p.syncUnknown(ctx, b, pv, pool, directory)
	case errors.Is(err, volume.ErrDamaged), errors.Is(err, volume.ErrInvalid): // the name is another pool's
		p.disown(ctx, pv, err)
		return nil
	case err != nil:
		return err
	case v.Held() != nil:
		return nil // the migration sees to both PVs
	}
	v, err = p.follow(ctx, b, pv, pool, v)
	switch {
	case errors.Is(err, errUnsettled), errors.Is(err, volume.ErrNotReady):
		return err
	case err != nil:
		p.disown(ctx, pv, err)
		return nil
	case v.State == volume.Deleting:
		return nil
	}
	changed, err := pool.Bind(directory, p.binding(pv, cmp.Or(ownerOf(pv), v.Owner)))
	if err != nil {
		return err
	}
	if changed {
		p.changed(pool) // which has it written
	}
	return p.namePool(ctx, pv, pool)
}

// binding is what the PV says about a volume of that claim.
func (p *PVs) binding(pv *corev1.PersistentVolume, owner volume.Owner) volume.Binding {
	return volume.Binding{
		PV: pv.Name, Owner: owner, Cluster: p.node.Cluster(),
		ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
	}
}

// remind says once that a released PV stays, where its policy tells its user
// that it goes.
func (p *PVs) remind(ctx context.Context, b *backend, pv *corev1.PersistentVolume) {
	if pv.DeletionTimestamp != nil || !class.Leaving(pv) {
		return
	}
	if err := b.deletable(pv); err != nil {
		p.events.Warn(ctx, events.PV(pv), "deletes", events.VolumeFailedDelete, fmt.Sprintf("node %s: %v", p.node.Name(), err))
	}
}

// namePool writes the pool's UUID on the PV of an adopted volume, so that it
// guards the pool like any other. It does nothing where the PV has one.
func (p *PVs) namePool(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool) error {
	if pv.Annotations[class.AnnPool] != "" || !p.node.MayPatchPVs() {
		return nil
	}
	return p.patchMeta(ctx, pv, "annotations", class.AnnPool, pool.ID())
}

// current returns the PV as the API server has it, nil where there is none. Once
// the library has saved a PV it puts its own copy into the store, without UID,
// maybe over what the watch brought meanwhile; nothing would bring that again.
func (p *PVs) current(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	if pv := p.Saved(name); pv != nil {
		return pv, nil
	}
	if _, ok, err := p.informer.GetStore().GetByKey(name); !ok || err != nil {
		return nil, err
	}
	return live.PV(ctx, p.client, name)
}

// syncUnknown adopts the directory of a PV that has no record. A PV that is on
// its way out and has no directory either is just that. The PV in memory may be
// older than the volume's deletion, so the API server is asked before anybody is
// warned.
func (p *PVs) syncUnknown(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	over := func(pv *corev1.PersistentVolume) bool {
		return class.Leaving(pv) && b.deletable(pv) == nil && nothingLeft(pv, pool, directory)
	}
	if over(pv) {
		return nil
	}
	err := p.adopt(ctx, b, pv, pool, directory)
	if err != nil && !errors.Is(err, volume.ErrNotReady) {
		now, unread := live.PV(ctx, p.client, pv.Name)
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
		p.disown(ctx, pv, err)
		return nil
	}
	return p.namePool(ctx, pv, pool)
}

// disown says that the PV is left alone, and why.
func (p *PVs) disown(ctx context.Context, pv *corev1.PersistentVolume, why error) {
	p.events.Warn(ctx, events.PV(pv), "refused", events.VolumeRefused, fmt.Sprintf(
		"node %s leaves this PV and its data alone: %v; correct the PV, or delete it once its data is safe", p.node.Name(), why))
}

// adopt gives the directory of a PV that was made without us a record. It is
// promised what the claim asked for: the PV's own capacity may be the whole
// disk's. Where there is no claim, the shape says what.
func (p *PVs) adopt(ctx context.Context, b *backend, pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	if err := b.adoptable(pv, pool, directory); err != nil {
		return err
	}
	return p.take(ctx, pv, pool, directory, b.unclaimed(pv))
}

// take makes the record of a directory that is the PV's. unclaimed is what is
// promised where there is no claim, in bytes.
func (p *PVs) take(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, directory string, unclaimed int64) error {
	bytes, err := p.claimed(ctx, pv, unclaimed)
	if err != nil {
		return err
	}
	_, err = pool.Adopt(volume.Spec{
		Name: directory, Bytes: bytes, PV: pv.Name, Cluster: p.node.Cluster(), Owner: ownerOf(pv),
		ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
	})
	if err == nil {
		p.changed(pool)
		klog.FromContext(ctx).Info("Adopted", "PV", pv.Name, "pool", pool.Path(), "directory", directory, "bytes", bytes)
	}
	return err
}

// claimed is what the PV's claim asks for, in bytes; unclaimed without one.
func (p *PVs) claimed(ctx context.Context, pv *corev1.PersistentVolume, unclaimed int64) (int64, error) {
	if waitsForClaim(pv) {
		return unclaimed, nil
	}
	claim, err := live.Claim(ctx, p.client, ownerOf(pv))
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
