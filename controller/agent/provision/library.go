package provision

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
)

const (
	// workers handle claims, and as many handle PVs. Eight keep a disk's journal busy.
	workers = 8
	// retryFirst and retryLast bound the pause before a failed step is retried.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
)

// Library builds the provisioner library for one instance a node without a leader. The library
// never gives up, never deletes a directory because its PV could not be saved, and never lists
// nodes. local are the claims of this node, from the Claims of the Config; the caller runs them,
// the informers of PVs and classes, and the library.
func (c *Controller) Library(ctx context.Context, local cache.SharedIndexInformer) (*lib.ProvisionController, error) {
	watched, err := newWatchedPVs(c.PVs.Informer())
	if err != nil {
		return nil, fmt.Errorf("watch PVs: %w", err)
	}
	if err := c.endCopies(ctx, local); err != nil {
		return nil, fmt.Errorf("watch claims: %w", err)
	}
	var names []string
	for _, b := range c.Backends.All {
		names = append(names, b.Provisioner)
	}
	return lib.NewProvisionController(klog.FromContext(ctx), libraryClient{c.Client, c}, names[0], c,
		lib.AdditionalProvisionerNames(names[1:]),
		lib.LeaderElection(false),
		lib.Threadiness(workers),
		lib.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[any](retryFirst, retryLast)),
		lib.CreateProvisionedPVLimiter(c.saving),
		lib.FailedProvisionThreshold(0),
		lib.FailedDeleteThreshold(0),
		lib.AddFinalizer(true),
		lib.NodesLister(thisNode{c.Info.Node()}),
		lib.ClaimsInformer(watchedClaims{local}),
		lib.VolumesInformer(watched),
		lib.ClassesInformer(c.Claims.Classes()),
		lib.ResyncPeriod(claims.Resync),
		lib.MetricsInstance(c.Config.Metrics),
	), nil
}

// init has the library not register the types of core/v1 with client-go's scheme, as it does each
// time that it is built. The scheme has them since its own init, decodes every response of the API
// server, and has no lock: a registration would crash an agent of this process that reads one.
func init() {
	register := corev1.AddToScheme
	corev1.AddToScheme = func(s *runtime.Scheme) error {
		if s == scheme.Scheme {
			return nil
		}
		return register(s)
	}
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

// thisNode is a NodeLister that always returns this node: by "not found" the library would remove
// the scheduler's choice; ShouldProvision admits local claims only.
type thisNode struct{ node *corev1.Node }

func (n thisNode) List(labels.Selector) ([]*corev1.Node, error) { return []*corev1.Node{n.node}, nil }
func (n thisNode) Get(string) (*corev1.Node, error)             { return n.node, nil }

// watchedPVs is an informer whose store only the watch changes. The library writes its own copy of
// a PV to the store after it has saved the PV. If the watch has reported by then that the PV is
// released, the store would lose it: the volume would not be deleted before the PV changes again.
type watchedPVs struct {
	cache.SharedIndexInformer
	store pvStore
}

func newWatchedPVs(i cache.SharedIndexInformer) (watchedPVs, error) {
	w := watchedPVs{i, pvStore{i.GetStore(), utilcache.NewLRUExpireCache(claims.RememberMost)}}
	_, err := i.AddEventHandler(informers.OnKey(func(name string) { w.store.added.Remove(name) }))
	return w, err
}

// GetStore returns the store for the library, which only calls Add and GetByKey.
func (w watchedPVs) GetStore() cache.Store { return w.store }

// pvStore has the PVs of the watch. Beside them it has those that the library added and the watch
// has not reported since, for a while: the library provisions no claim again whose PV it just saved,
// or cannot save yet. If it does so later, it finds the claim's volume.
type pvStore struct {
	cache.Store
	added *utilcache.LRUExpireCache // PVs by name
}

func (s pvStore) Add(obj any) error {
	s.added.Add(obj.(*corev1.PersistentVolume).Name, obj, behindFor)
	return nil
}

func (s pvStore) GetByKey(name string) (obj any, exists bool, err error) {
	if obj, exists, err = s.Store.GetByKey(name); exists || err != nil {
		return obj, exists, err
	}
	obj, exists = s.added.Get(name)
	return obj, exists, nil
}

func newRefusals() *prometheus.CounterVec {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubevirt_hpp_refusals_total",
		Help: "Number of times that a claim of this node was refused, by reason.",
	}, []string{"reason"})
	for _, reason := range []string{
		refusedUnsupported, refusedNoPool, refusedNotReady, refusedWaiting, refusedSpace, refusedRoom, refusedQuota, refusedSource,
		refusedVolume,
		claims.TopicUnserved,
	} {
		refusals.WithLabelValues(reason) // so that the first refusal is an increase
	}
	return refusals
}

// Metrics returns what prometheus may collect of the controller: a counter of its refusals.
func (c *Controller) Metrics() prometheus.Collector { return c.refusals }
