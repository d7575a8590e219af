package capacity

import (
	"context"
	"errors"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
)

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
