package claims

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
)

// feed lists and watches claims, and lets through those of this node only, so
// that what a node caches grows with its own claims and not with the cluster's.
//
// A claim that stops being ours is turned into Deleted. A claim whose class does
// not exist is held until classAppeared; held.go has what is kept of it. What
// passes is prepared.
type feed struct {
	source cache.ListerWatcherWithContext
	placer *placer
	// heard is told of every claim that is not ours but may need a word
	// (elsewhere, nobodys, unscheduled, unserved), and, with any other placement, that it needs none.
	heard func(*corev1.PersistentVolumeClaim, placement)
	// read returns a claim from the API server.
	read func(namespace, name string) (*corev1.PersistentVolumeClaim, error)

	mu     sync.Mutex
	passed map[types.UID]*corev1.PersistentVolumeClaim // as prepared
	early  map[types.UID]struct{}                      // of those, the ones that prepare named the provisioner on
	held   map[types.UID]heldClaim
	again  map[types.UID]*corev1.PersistentVolumeClaim // to be sent once more; held claims as they were read
	wake   chan struct{}

	deleted *lru.Cache // UIDs of claims that were ours
}

// RememberMost is how many deleted claims are remembered, and how many PVs that
// the library has finished with: more than a node deletes before the watch has
// told of all.
const RememberMost = 4096

// newFeed returns a feed of source. What the placer looks up must be known
// before the first list or watch.
func newFeed(source cache.ListerWatcherWithContext, p *placer, heard func(*corev1.PersistentVolumeClaim, placement),
	read func(namespace, name string) (*corev1.PersistentVolumeClaim, error)) *feed {
	f := &feed{source: source, placer: p, heard: heard, read: read, wake: make(chan struct{}, 1), deleted: lru.New(RememberMost)}
	f.forget()
	f.again = map[types.UID]*corev1.PersistentVolumeClaim{}
	return f
}

// forget starts from nothing, as a new list does.
func (f *feed) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed, f.early = map[types.UID]*corev1.PersistentVolumeClaim{}, map[types.UID]struct{}{}
	f.held = map[types.UID]heldClaim{}
}

// ListWithContext lists the claims of this node.
func (f *feed) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	obj, err := f.source.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	list := obj.(*corev1.PersistentVolumeClaimList)
	if o.Continue == "" {
		f.forget()
	}
	kept := list.Items[:0:0]
	for i := range list.Items {
		if e, ok := f.filter(watch.Event{Type: watch.Added, Object: &list.Items[i]}); ok {
			kept = append(kept, *e.Object.(*corev1.PersistentVolumeClaim))
		}
	}
	list.Items = kept
	return list, nil
}

// WatchWithContext watches the claims of this node.
func (f *feed) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := f.source.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		f.forget()
	}
	return f.stream(w), nil
}

// isDeleted reports whether the watch has told that a claim of this node was
// deleted, which is for ever. It is false of one that nothing is known of.
func (f *feed) isDeleted(uid types.UID) bool {
	_, ok := f.deleted.Get(uid)
	return ok
}

// isEarly reports whether the claim is here before the controller-manager wrote
// on it who provisions it.
func (f *feed) isEarly(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.early[uid]
	return ok
}

// retry sends claims of this node down the feed once more, unchanged. It does
// nothing for claims that are not here any more.
func (f *feed) retry(uids ...types.UID) {
	claims := map[types.UID]*corev1.PersistentVolumeClaim{}
	for _, uid := range uids {
		claims[uid] = nil
	}
	f.sendAgain(claims)
}

// sendAgain is retry for claims of which some are held, and were read.
func (f *feed) sendAgain(claims map[types.UID]*corev1.PersistentVolumeClaim) {
	if len(claims) == 0 {
		return
	}
	f.mu.Lock()
	for uid, claim := range claims {
		if f.again[uid] == nil {
			f.again[uid] = claim
		}
	}
	f.mu.Unlock()
	sleep.Wake(f.wake)
}

// filter turns an event of the cluster into one of this node; false drops it.
func (f *feed) filter(e watch.Event) (watch.Event, bool) {
	claim, ok := e.Object.(*corev1.PersistentVolumeClaim)
	if !ok || e.Type == watch.Bookmark || e.Type == watch.Error {
		return e, true
	}
	where := remote
	if e.Type != watch.Deleted {
		where = f.placer.place(claim)
	}
	f.heard(claim, where)
	if where == unknown {
		// The class may have appeared after it was looked up and before the claim is held.
		defer func() {
			if name := class.Of(claim); f.placer.class(name) != nil {
				go f.classAppeared(name)
			}
		}()
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.passed[claim.UID]
	delete(f.held, claim.UID)
	delete(f.early, claim.UID)
	if h, possible := hold(claim); where == unknown && possible {
		f.held[claim.UID] = h
	}
	switch {
	case where == local:
		e.Type = watch.Added
		if known {
			e.Type = watch.Modified
		}
		out := prepare(claim, f.placer.class(class.Of(claim)), f.placer.node)
		f.passed[claim.UID] = out
		if out.Annotations[class.AnnStorageProvisioner] != claim.Annotations[class.AnnStorageProvisioner] {
			f.early[claim.UID] = struct{}{}
		}
		e.Object = out
		return e, true
	case known:
		if e.Type == watch.Deleted {
			f.deleted.Add(claim.UID, nil)
		}
		delete(f.passed, claim.UID)
		gone := before.DeepCopy()
		gone.ResourceVersion = claim.ResourceVersion
		return watch.Event{Type: watch.Deleted, Object: gone}, true
	}
	return e, false
}

// retries takes what retry left and returns the events for it. It is called by
// the stream alone, so that no event of the source is overtaken.
func (f *feed) retries() []watch.Event {
	f.mu.Lock()
	again := f.again
	f.again = map[types.UID]*corev1.PersistentVolumeClaim{}
	var events, read []watch.Event
	others := map[types.UID]heldClaim{}
	for uid, claim := range again {
		if known, ok := f.passed[uid]; ok {
			events = append(events, watch.Event{Type: watch.Modified, Object: known})
		} else if h, ok := f.held[uid]; ok && claim == nil {
			others[uid] = h
		} else if ok && h.isOf(claim) {
			read = append(read, watch.Event{Type: watch.Added, Object: claim})
		}
	}
	f.mu.Unlock()
	for uid, h := range others {
		f.judge(uid, h)
	}
	for _, e := range read {
		if e, ok := f.filter(e); ok {
			events = append(events, e)
		}
	}
	return events
}
