// Package informers runs informers whose owner checks all their objects at each change.
package informers

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Run runs the informers until the context ends. It calls check when all of them have
// read their objects, and after each later change. Calls of check do not overlap. It
// returns an error at once if an informer has run before.
func Run(ctx context.Context, check func(), all ...cache.SharedIndexInformer) error {
	synced := make([]cache.InformerSynced, 0, len(all))
	for _, i := range all {
		synced = append(synced, i.HasSynced)
	}
	var mu sync.Mutex
	again := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, is := range synced {
			if !is() {
				return // the call below follows
			}
		}
		check()
	}
	for _, i := range all {
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { again() },
			UpdateFunc: func(any, any) { again() },
			DeleteFunc: func(any) { again() },
		})
		if err != nil {
			return fmt.Errorf("watch for changes: %w", err)
		}
	}
	var wg sync.WaitGroup
	for _, i := range all {
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	wg.Go(func() { // the handlers may have run before that
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			again()
		}
	})
	wg.Wait()
	return nil
}
