package resize

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// workers handle claims at the same time.
	workers = 2
	// errorFirst and errorLast bound the pause after a step that failed for
	// want of an answer.
	errorFirst = time.Second
	errorLast  = 30 * time.Second
	// lookAgain is how often pools are asked whether something became possible
	// where nobody said so; others write to their disks too.
	lookAgain = 10 * time.Second
	// pace is the least pause between two looks at what a change of space may
	// have made possible.
	pace = time.Second
)

// Loop is the claim loop, as far as it is needed here.
type Loop interface {
	// VolumeOf returns the volume of a PV of this node, and its pool, where the
	// loop takes both for its own. The error is an ErrNotReady where the pool,
	// which is returned then, is not ready; any other means that the PV is to
	// be left alone, which the loop says where it must be said.
	VolumeOf(*corev1.PersistentVolume) (*volume.Pool, volume.Volume, error)
}

// Events records Warnings, and Notes of what is no fault, once for each topic.
type Events interface {
	Warn(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
	Note(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
}

// Config is what a resizer needs. New checks it.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name
	Loop   Loop
	Events Events
	// Changed is called after a volume of the pool grew: what it can promise is
	// another. It must not block; may be nil.
	Changed func(*volume.Pool)
}

// Resizer grows the volumes of one node. Make it with New, then Run it once.
type Resizer struct {
	client  kubernetes.Interface
	node    string
	loop    Loop
	events  Events
	changed func(*volume.Pool)

	queue   workqueue.TypedRateLimitingInterface[string] // keys of claims
	failing *failing
	wake    chan struct{}

	claims, pvs cache.Store // set by Run
}

// New returns a resizer that does nothing until it is Run.
func New(c Config) (*Resizer, error) {
	switch {
	case c.Client == nil:
		return nil, errors.New("grow volumes: a client is required")
	case c.Node == "":
		return nil, errors.New("grow volumes: the node's name is required")
	case c.Loop == nil || c.Events == nil:
		return nil, errors.New("grow volumes: the claim loop and a recorder of events are required")
	}
	if c.Changed == nil {
		c.Changed = func(*volume.Pool) {}
	}
	return &Resizer{
		client: c.Client, node: c.Node, loop: c.Loop, events: c.Events, changed: c.Changed,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](errorFirst, errorLast)),
		failing: newFailing(), wake: make(chan struct{}, 1),
	}, nil
}

// SpaceChanged says that a pool may have space again, or is ready: volumes that
// could not grow for want of it are tried again. It never blocks.
func (r *Resizer) SpaceChanged() {
	sleep.Wake(r.wake)
}

// Run grows volumes until the context ends. The informers, of this node's
// claims and of its PVs, are run by the caller. What they have tells where to
// look; it is acted upon only as the API server has it.
func (r *Resizer) Run(ctx context.Context, claims, pvs cache.SharedIndexInformer) {
	defer r.queue.ShutDown()
	r.claims, r.pvs = claims.GetStore(), pvs.GetStore()
	if _, err := claims.AddEventHandler(handle(r.claimSeen)); err != nil {
		klog.FromContext(ctx).Error(err, "Volumes do not grow: cannot watch claims")
		return
	}
	if _, err := pvs.AddEventHandler(handle(r.pvSeen)); err != nil {
		klog.FromContext(ctx).Error(err, "Volumes do not grow: cannot watch PVs")
		return
	}
	for range workers {
		go r.work(ctx)
	}
	for sleep.OrWoken(ctx, lookAgain, r.wake) {
		for _, key := range r.failing.possible() {
			r.queue.Add(key)
		}
		if !sleep.For(ctx, pace) {
			return
		}
	}
}

// handle calls seen for whatever happens to an object.
func handle(seen func(obj any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, obj any) { seen(obj) },
		DeleteFunc: seen,
	}
}

func (r *Resizer) claimSeen(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		r.queue.Add(key)
	}
}

func (r *Resizer) pvSeen(obj any) {
	if pv, ok := obj.(*corev1.PersistentVolume); ok && pv.Spec.ClaimRef != nil {
		r.queue.Add(cache.NewObjectName(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name).String())
	}
}

// work handles claims until the queue is shut down.
func (r *Resizer) work(ctx context.Context) {
	for {
		key, stop := r.queue.Get()
		if stop {
			return
		}
		switch err := r.sync(ctx, key); {
		case err == nil, apierrors.IsNotFound(err), ctx.Err() != nil:
			r.queue.Forget(key) // what is gone meanwhile need not grow
		case apierrors.IsConflict(err):
			r.queue.AddRateLimited(key) // somebody else wrote first
		default:
			klog.FromContext(ctx).Error(err, "Cannot grow a volume yet; trying again", "claim", key)
			r.queue.AddRateLimited(key)
		}
		r.queue.Done(key)
	}
}
