package capacity

import (
	"context"
	"errors"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// checkQuota returns an error if the class requires quotas and the pool, which is ready,
// does not enforce them. The scheduler must not choose such a pool.
func checkQuota(c *storagev1.StorageClass, g *gauge) error {
	p, err := contract.ParametersOf(c)
	if err != nil {
		return nil // see contract.PublishedPool
	}
	if l, known := g.sample(time.Now()); !known || !l.ready {
		return nil
	}
	return g.pool.CheckQuota(p.Spec)
}

// wanted returns the gauges of the classes that should have an object, by class. A class has none,
// which is logged once, if its pool is not here or does not enforce the quotas that it requires.
func (p *Publisher) wanted(ctx context.Context) map[string]*gauge {
	wanted := map[string]*gauge{}
	for _, obj := range p.classes.GetStore().List() {
		c := obj.(*storagev1.StorageClass)
		pool, ok := contract.PublishedPool(c, p.config.Driver)
		if !ok {
			continue
		}
		g, why := p.gauges[pool], "its pool is not on this node"
		if g != nil && g.pool.NotSelected() != "" {
			why = g.pool.NotSelected()
		} else if g != nil {
			err := checkQuota(c, g)
			if err == nil {
				wanted[c.Name] = g
				continue
			}
			why = err.Error()
		}
		if p.logged[c.Name] != pool {
			p.logged[c.Name] = pool
			klog.FromContext(ctx).Info("No capacity is published for this class, so the scheduler places none of its claims "+
				"on this node: "+why,
				"class", c.Name, "pool", pool, "pools", p.config.Pools.Names())
		}
	}
	return wanted
}

// watch creates the informers: of all classes, and of this node's objects.
func (p *Publisher) watch() (err error) {
	classes := p.config.Client.StorageV1().StorageClasses()
	p.classes, err = p.informer("classes", &storagev1.StorageClass{}, cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return classes.List(ctx, o)
		},
		WatchFuncWithContext: classes.Watch,
	})
	if err != nil {
		return err
	}
	selector := labels.Set{labelDriver: p.config.Driver, labelManagedBy: managedBy(p.config.Node)}.String()
	p.objects, err = p.informer("capacity objects", &storagev1.CSIStorageCapacity{}, cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return p.api().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return p.api().Watch(ctx, o)
		},
	})
	return err
}

// informer returns an informer that sets the status to whether it can list and watch,
// instead of a log line for every attempt.
func (p *Publisher) informer(what string, of runtime.Object, from cache.ListWatch) (cache.SharedIndexInformer, error) {
	i := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := from.ListWithContextFunc(ctx, o)
			p.status.set(ctx, "list "+what, lasting(err))
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := from.WatchFuncWithContext(ctx, o)
			p.status.set(ctx, "watch "+what, lasting(err))
			if err == nil { // the watch may include the list
				p.status.set(ctx, "list "+what, nil)
			}
			return w, err
		},
	}, of, 0, cache.Indexers{})
	_, err := i.AddEventHandler(informers.OnChange(func(any) { p.requestPass() }))
	return i, errors.Join(err,
		i.SetTransform(informers.WithoutManagedFields),
		i.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}))
}

// lasting returns nil for errors after which an informer recovers by itself: the resource
// version expired, or the API server does not support lists by watches.
func lasting(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}
