package provision

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

const (
	// workers handle claims, and as many handle PVs. Eight keep a disk's journal busy.
	workers = 8
	// retryFirst and retryLast bound the pause before a failed step is retried.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
)

// Run serves this node's claims until the context ends. It waits for the API server and
// for permissions; Ready returns what it waits for.
//
// The order matters. Run opens the pools after the PVs of this node have been listed,
// because a PV names the pool that is expected at a path. It checks PVs after it has tried
// to open the pools.
func (c *Controller) Run(ctx context.Context) error {
	if !c.eventually(ctx, c.info.Read) {
		return nil
	}
	if !c.eventually(ctx, c.info.CheckPermissions) {
		return nil
	}
	local, err := c.claims.Watch(ctx)
	if err != nil {
		return err
	}
	watched, err := newWatchedPVs(c.pvs.Informer())
	if err != nil {
		return fmt.Errorf("watch PVs: %w", err)
	}
	library := c.newLibrary(ctx, local, watched)
	close(c.started)
	c.run(ctx, c.pvs.Informer().RunWithContext, c.claims.Classes().RunWithContext)
	if !cache.WaitForCacheSync(ctx.Done(), c.pvs.Informer().HasSynced, c.claims.Classes().HasSynced) || !c.eventually(ctx, c.pvs.Sweep) || !c.eventually(ctx, c.before) {
		return nil
	}
	for pool, err := range c.pools.Open() {
		klog.FromContext(ctx).Error(err, "The pool is not ready; the agent probes it again", "pool", pool.Name())
	}
	if err := c.admit(); err != nil {
		return err
	}
	if err := c.pvs.Watch(c.claims, local); ctx.Err() != nil {
		return nil // the informer has ended with the context, and takes no handler
	} else if err != nil {
		return fmt.Errorf("watch PVs: %w", err)
	}
	c.status.set(nil)
	beside := func(ctx context.Context) { c.beside(ctx, local, c.pvs.Informer()) }
	permissions := func(ctx context.Context) { c.info.Run(ctx, c.pvs.SweepSoon) } // granted: PVs of older provisioners can be labelled now
	c.run(ctx, c.opened, beside, local.RunWithContext, c.pvs.Run, c.claims.RunRetries, permissions)
	library.Run(ctx)
	return nil
}

// Started is closed once Run has set up the library. Until then no part of the process may
// list or watch: the library registers types with client-go's scheme, which decodes every
// response of the API server and has no lock.
func (c *Controller) Started() <-chan struct{} { return c.started }

// eventually calls f until it succeeds, with growing pauses, and returns false if the
// context ends first. It logs each error, and Ready returns it.
func (c *Controller) eventually(ctx context.Context, f func(context.Context) error) bool {
	pause := wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.1, Steps: 1 << 30, Cap: retryLast}
	for {
		err := f(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		c.status.set(err)
		klog.FromContext(ctx).Error(err, "Cannot start yet; trying again")
		if !sleep.For(ctx, pause.Step()) {
			return false
		}
	}
}

func (c *Controller) run(ctx context.Context, parts ...func(context.Context)) {
	for _, part := range parts {
		go part(ctx)
	}
}

// newLibrary sets up the library for one instance a node without a leader. The library
// never gives up, never deletes a directory because its PV could not be saved, and never
// lists nodes.
func (c *Controller) newLibrary(ctx context.Context, local cache.SharedIndexInformer, watched watchedPVs) *lib.ProvisionController {
	limiter := func() workqueue.TypedRateLimiter[any] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[any](retryFirst, retryLast)
	}
	var names []string
	for _, b := range c.backends.all {
		names = append(names, b.provisioner)
	}
	return lib.NewProvisionController(klog.FromContext(ctx), libraryClient{c.client, c}, names[0], c,
		lib.AdditionalProvisionerNames(names[1:]),
		lib.LeaderElection(false),
		lib.Threadiness(workers),
		lib.RateLimiter(limiter()),
		lib.CreateProvisionedPVLimiter(limiter()),
		lib.FailedProvisionThreshold(0),
		lib.FailedDeleteThreshold(0),
		lib.AddFinalizer(true),
		lib.NodesLister(thisNode{c.info.Node()}),
		lib.ClaimsInformer(watchedClaims{local}),
		lib.VolumesInformer(watched),
		lib.ClassesInformer(c.claims.Classes()),
		lib.ResyncPeriod(claims.Resync),
		lib.MetricsInstance(c.metrics),
	)
}

// watchedClaims is an informer whose store only the watch changes. After it has returned a
// claim to the scheduler, the library writes the claim without its node to the store. If the
// watch has reported the scheduler's next choice by then, the store would lose it: a claim
// that is placed here again would wait for ever.
type watchedClaims struct{ cache.SharedIndexInformer }

// GetStore returns the store for the library, which only calls Update.
func (w watchedClaims) GetStore() cache.Store { return neverUpdated{w.SharedIndexInformer.GetStore()} }

type neverUpdated struct{ cache.Store }

func (neverUpdated) Update(any) error { return nil }

// thisNode is a NodeLister that always returns this node. If the lister returned "not
// found", the library would remove the scheduler's choice from the claim; ShouldProvision
// admits local claims only.
type thisNode struct{ node *corev1.Node }

func (n thisNode) List(labels.Selector) ([]*corev1.Node, error) { return []*corev1.Node{n.node}, nil }
func (n thisNode) Get(string) (*corev1.Node, error)             { return n.node, nil }

// watchedPVs is an informer whose store only the watch changes. The library writes its own
// copy of a PV to the store after it has saved the PV. If the watch has reported by then
// that the PV is released, the store would lose it: the volume would not be deleted before
// the PV changes again.
type watchedPVs struct {
	cache.SharedIndexInformer
	store pvStore
}

func newWatchedPVs(i cache.SharedIndexInformer) (watchedPVs, error) {
	w := watchedPVs{i, pvStore{i.GetStore(), lru.New(claims.RememberMost)}}
	forget := func(obj any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			w.store.added.Remove(name)
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    forget,
		UpdateFunc: func(_, obj any) { forget(obj) },
		DeleteFunc: forget,
	})
	return w, err
}

// GetStore returns the store for the library, which only calls Add and GetByKey.
func (w watchedPVs) GetStore() cache.Store { return w.store }

// pvStore has the PVs of the watch. Beside them it has those that the library added and the
// watch has not reported since: the library provisions no claim again whose PV it cannot
// save yet.
type pvStore struct {
	cache.Store
	added *lru.Cache // PVs by name
}

func (s pvStore) Add(obj any) error {
	s.added.Add(obj.(*corev1.PersistentVolume).Name, obj)
	return nil
}

func (s pvStore) GetByKey(name string) (obj any, exists bool, err error) {
	if obj, exists, err = s.Store.GetByKey(name); exists || err != nil {
		return obj, exists, err
	}
	obj, exists = s.added.Get(name)
	return obj, exists, nil
}
