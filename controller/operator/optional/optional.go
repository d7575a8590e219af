// Package optional applies objects of an API that a cluster may serve, or may serve later, such as
// that of an operator.
package optional

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

const firstList = 30 * time.Second

// checkInterval is how often the operator checks whether the cluster serves the API.
var checkInterval = timing.Scaled(10 * time.Second)

// Reconciler applies objects while the cluster serves their kinds, and does nothing while it does
// not. It has a cache of its own, because a cache with a kind that is not served does not start.
type Reconciler struct {
	Manager ctrl.Manager
	// API is the one that the cluster may lack.
	API schema.GroupVersion
	// Kinds are those of the objects. The objects are kept while the cluster serves those of the
	// API.
	Kinds []schema.GroupVersionKind
	// Namespace is that of the objects, empty for those without one.
	Namespace string
	// Owner is the resource that the objects are made for. Its changes are changes of the objects.
	Owner client.Object
	// Apply applies what differs, with a client that reads from the cache. It is called at first,
	// after every change of an object or an owner, and again at intervals.
	Apply func(context.Context, client.Client) error

	isServed func() (bool, error)
}

// Start implements manager.Runnable. It returns when the context ends.
func (k *Reconciler) Start(ctx context.Context) error {
	kinds, err := discovery.NewDiscoveryClientForConfigAndClient(k.Manager.GetConfig(), k.Manager.GetHTTPClient())
	if err != nil {
		return err
	}
	k.isServed = func() (bool, error) { return serves(kinds, k.API, k.Kinds) }
	for {
		served, err := k.isServed()
		if err == nil && served {
			klog.InfoS("The cluster serves an API; its objects are kept", "api", k.API)
			err = k.whileServed(ctx)
		}
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Cannot keep objects of an API; trying again", "api", k.API)
		}
		if !sleep.For(ctx, checkInterval) {
			return nil
		}
	}
}

func serves(client discovery.ServerResourcesInterface, api schema.GroupVersion,
	kinds []schema.GroupVersionKind) (bool, error) {
	list, err := client.ServerResourcesForGroupVersion(api.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list the kinds of %s: %w", api, err)
	}
	for _, kind := range kinds {
		is := func(r metav1.APIResource) bool { return r.Kind == kind.Kind }
		if kind.GroupVersion() == api && !slices.ContainsFunc(list.APIResources, is) {
			return false, nil
		}
	}
	return true, nil
}

// whileServed calls Apply until a kind is no longer served or the context ends.
func (k *Reconciler) whileServed(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := k.Manager
	own, err := cache.New(m.GetConfig(), cache.Options{HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(),
		Mapper:            m.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{k.Namespace: {}}})
	if err != nil {
		return err
	}
	through, err := client.New(m.GetConfig(), client.Options{HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(),
		Mapper: m.GetRESTMapper(),
		Cache:  &client.CacheOptions{Reader: own, Unstructured: true}})
	if err != nil {
		return err
	}
	changed, err := k.watch(ctx, own)
	if err != nil {
		return err
	}
	go func() { _ = own.Start(ctx) }() // WaitForCacheSync returns false if it fails
	first, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	if !own.WaitForCacheSync(first) {
		return fmt.Errorf("the objects cannot be listed within %s; the log has the reason", firstList)
	}
	for {
		if err := k.Apply(ctx, through); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Cannot apply objects of an API; trying again", "api", k.API)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(checkInterval):
			if served, err := k.isServed(); err == nil && !served {
				klog.InfoS("The cluster does not serve an API any more", "api", k.API)
				return nil
			}
		}
	}
}

// watch returns a channel that receives after changes of the objects and of their owner.
func (k *Reconciler) watch(ctx context.Context, own cache.Cache) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	wake := func() { sleep.Wake(changed) }
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	}
	for _, kind := range k.Kinds {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		informer, err := own.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
	}
	owners, err := k.Manager.GetCache().GetInformer(ctx, k.Owner)
	if err != nil {
		return nil, fmt.Errorf("watch the resource: %w", err)
	}
	handle, err := owners.AddEventHandler(handler)
	if err != nil {
		return nil, fmt.Errorf("watch the resource: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = owners.RemoveEventHandler(handle) }) // it fails only if the cache has ended too
	return changed, nil
}
