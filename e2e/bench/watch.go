package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// watcher records when claims and their PVs change.
type watcher struct {
	mu    sync.Mutex
	known map[types.UID]*life
}

// newWatcher watches until the context ends.
func newWatcher(ctx context.Context, client kubernetes.Interface) (*watcher, error) {
	w := &watcher{known: map[types.UID]*life{}}
	claims := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	all := informers.NewSharedInformerFactory(client, 0)
	onClaim := func(obj any) { w.claim(obj.(*corev1.PersistentVolumeClaim)) }
	onPV := func(obj any) { w.pv(obj.(*corev1.PersistentVolume)) }
	_, err := claims.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: onClaim, UpdateFunc: func(_, obj any) { onClaim(obj) },
	})
	_, err2 := all.Core().V1().PersistentVolumes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: onPV, DeleteFunc: w.pvGone,
	})
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	for _, f := range []informers.SharedInformerFactory{claims, all} {
		f.Start(ctx.Done())
		f.WaitForCacheSync(ctx.Done())
	}
	return w, ctx.Err()
}

// life returns that of the claim, which may not have been observed yet.
func (w *watcher) life(uid types.UID) *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of(uid)
}

func (w *watcher) of(uid types.UID) *life {
	f := w.known[uid]
	if f == nil {
		f = &life{uid: uid}
		w.known[uid] = f
	}
	return f
}

// change applies f to a life.
func (w *watcher) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// note sets a time if it is not set.
func note(t *time.Time, now time.Time) {
	if t.IsZero() {
		*t = now
	}
}

func (w *watcher) claim(c *corev1.PersistentVolumeClaim) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.of(c.UID)
	note(&f.seen, now)
	if c.Annotations[harness.AnnStorageProvisioner] != "" {
		note(&f.named, now)
	}
	if c.Status.Phase == corev1.ClaimBound {
		note(&f.bound, now)
	}
}

func (w *watcher) pv(pv *corev1.PersistentVolume) {
	if ref := pv.Spec.ClaimRef; ref != nil && ref.Namespace == namespace {
		now := time.Now()
		w.change(func() { note(&w.of(ref.UID).saved, now) })
	}
}

func (w *watcher) pvGone(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if pv, ok := obj.(*corev1.PersistentVolume); ok && pv.Spec.ClaimRef != nil {
		now := time.Now()
		w.change(func() { note(&w.of(pv.Spec.ClaimRef.UID).gone, now) })
	}
}

// await waits until all lives satisfy the condition. It does not affect the recorded times.
func (w *watcher) await(ctx context.Context, all lives, so func(*life) bool) error {
	for end := time.Now().Add(patience); ; {
		missing := 0
		w.change(func() {
			for _, f := range all {
				if !so(f) {
					missing++
				}
			}
		})
		if missing == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d not after %s", missing, len(all), patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
