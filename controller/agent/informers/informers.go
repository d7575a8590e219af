// Package informers makes informers that keep little, and runs informers whose owner checks all
// their objects at each change.
//
//	informers.go  makes and runs informers
//	share.go      lets the objects of caches share what they have alike
package informers

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// New returns an informer as cache.NewSharedIndexInformer does, which keeps objects without their
// managed fields.
func New(lw cache.ListerWatcher, of runtime.Object, resync time.Duration) cache.SharedIndexInformer {
	i := cache.NewSharedIndexInformer(lw, of, resync, cache.Indexers{})
	_ = i.SetTransform(WithoutManagedFields) // fails only for an informer that has run
	return i
}

// WithoutManagedFields is a transform of an informer. It removes the managed fields, which can be
// larger than the rest of an object.
func WithoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// OnChange returns a handler that calls changed with the object of every addition, update and
// deletion. That of a deletion may be a cache.DeletedFinalStateUnknown.
func OnChange(changed func(obj any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed,
	}
}

// OnKey is OnChange for the key of the object, <namespace>/<name>.
func OnKey(changed func(key string)) cache.ResourceEventHandler {
	return OnChange(func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			changed(key)
		}
	})
}

// Run runs the informers until the context ends. It calls check when all of them have
// read their objects, and after later changes, once for those during a call. It
// returns an error at once if an informer has run before.
func Run(ctx context.Context, check func(), all ...cache.SharedIndexInformer) error {
	changed, synced := make(chan struct{}, 1), make([]cache.DoneChecker, 0, len(all))
	wake := func(any) { sleep.Wake(changed) } // check is not called here: it may make requests
	for _, i := range all {
		if _, err := i.AddEventHandler(OnChange(wake)); err != nil {
			return fmt.Errorf("watch for changes: %w", err)
		}
		synced = append(synced, i.HasSyncedChecker())
	}
	var wg sync.WaitGroup
	for _, i := range all {
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	wg.Go(func() {
		if !cache.WaitFor(ctx, "", synced...) {
			return
		}
		for {
			check()
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	wg.Wait()
	return nil
}
