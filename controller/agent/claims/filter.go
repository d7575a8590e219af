package claims

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/share"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// filter lists and watches the claims of the cluster and passes the local ones, prepared, so that
// the caches of a node grow with its own claims and not with the cluster's.
//
// If a local claim becomes remote, filter sends Deleted. If the class of a claim does
// not exist, or its source is not here, filter holds a heldClaim until classAppeared or sourceChanged.
type filter struct {
	source source
	placer *placer
	listener
	// read returns a claim from the API server.
	read func(namespace, name string) (*corev1.PersistentVolumeClaim, error)

	mu     sync.Mutex
	passed map[types.UID]*corev1.PersistentVolumeClaim // as prepared
	early  map[types.UID]struct{}                      // passed claims on which prepare wrote the provisioner
	held   map[types.UID]heldClaim
	left   map[types.UID]leftCopy                      // survives a new list
	late   map[types.UID]contract.Named                // see boundHere; until an event of the claim places it
	resend map[types.UID]*corev1.PersistentVolumeClaim // to be sent again; nil unless a held claim was read
	wake   chan struct{}
	// readLate wakes runLate.
	readLate chan struct{}

	sharer share.Sharer
}

// source lists and watches all claims of the cluster. No call of list has all of them in
// memory at once, because any user can create claims.
type source struct {
	list  func(ctx context.Context, f func(*corev1.PersistentVolumeClaim) bool) (resourceVersion string, err error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// listener follows the claims of the cluster.
type listener struct {
	// placed is called with each claim and its placement, and with remote if the claim was deleted.
	placed func(*corev1.PersistentVolumeClaim, placement)
	// forget is called before claims are listed again: those deleted meanwhile are not reported.
	forget func()
}

// RememberMost is the number of claims that each memory by their UIDs has, and of PVs that the library
// has finished with. A node deletes fewer before the watch reports all of them.
const RememberMost = 4096

// newFilter returns a filter of source. The caller fills the caches that the placer
// reads before the first list or watch.
func newFilter(from source, p *placer, l listener,
	read func(namespace, name string) (*corev1.PersistentVolumeClaim, error)) *filter {
	f := &filter{source: from, placer: p, listener: l, read: read, wake: make(chan struct{}, 1),
		readLate: make(chan struct{}, 1), left: map[types.UID]leftCopy{}}
	f.clear()
	f.resend = map[types.UID]*corev1.PersistentVolumeClaim{}
	return f
}

// reset forgets all claims. A new list calls it.
func (f *filter) reset() {
	f.clear()
	f.forget()
}

func (f *filter) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed, f.early = map[types.UID]*corev1.PersistentVolumeClaim{}, map[types.UID]struct{}{}
	f.held, f.late = map[types.UID]heldClaim{}, map[types.UID]contract.Named{}
}

// ListWithContext lists the claims of this node. It ignores the options: the list is the
// newest, and has all claims of the node without a limit.
func (f *filter) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	kept := &corev1.PersistentVolumeClaimList{}
	reset := sync.OnceFunc(f.reset) // not if the API server does not answer
	version, err := f.source.list(ctx, func(claim *corev1.PersistentVolumeClaim) bool {
		reset()
		if e, ok := f.apply(watch.Event{Type: watch.Added, Object: claim}); ok {
			kept.Items = append(kept.Items, *e.Object.(*corev1.PersistentVolumeClaim))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	reset()
	kept.ResourceVersion = version
	return kept, nil
}

// WatchWithContext watches the claims of this node.
func (f *filter) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := f.source.watch(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		f.reset()
	}
	return f.stream(w), nil
}

// isEarly reports whether the claim was passed before the controller-manager wrote its provisioner.
func (f *filter) isEarly(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.early[uid]
	return ok
}

// retry sends local claims again, unchanged. Claims that are no longer local are sent as deleted. A held
// claim is placed again.
func (f *filter) retry(uids ...types.UID) {
	claims := map[types.UID]*corev1.PersistentVolumeClaim{}
	for _, uid := range uids {
		claims[uid] = nil
	}
	f.retryRead(claims)
}

// retryRead is retry for claims of which some are held, or late, and were read from the API
// server. The value is nil for all others.
func (f *filter) retryRead(claims map[types.UID]*corev1.PersistentVolumeClaim) {
	if len(claims) == 0 {
		return
	}
	f.mu.Lock()
	for uid, claim := range claims {
		if f.resend[uid] == nil {
			f.resend[uid] = claim
		}
	}
	f.mu.Unlock()
	sleep.Wake(f.wake)
}

// apply turns an event of the cluster into one of this node. ok is false if there is none to send.
func (f *filter) apply(e watch.Event) (watch.Event, bool) {
	claim, ok := e.Object.(*corev1.PersistentVolumeClaim)
	if !ok || e.Type == watch.Bookmark || e.Type == watch.Error {
		return e, true
	}
	where := remote
	if e.Type != watch.Deleted {
		where = f.placer.place(claim)
	}
	f.placed(claim, where)
	switch where {
	case unknown:
		// The class may have appeared after the claim was placed and before the claim is held.
		defer func() {
			if name := contract.Of(claim); f.placer.class(name) != nil {
				go f.classAppeared(name)
			}
		}()
	case remoteBySource: // and so may its source have been bound
		defer func() {
			if source, _ := contract.CopiedClaim(claim); f.placer.place(claim) == local {
				go f.sourceChanged(source)
			}
		}()
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.passed[claim.UID]
	f.keep(claim, where, e.Type == watch.Deleted)
	switch {
	case where == local:
		e.Type = watch.Added
		if known {
			e.Type = watch.Modified
		}
		c := f.placer.class(contract.Of(claim))
		out := prepare(claim, c, f.placer.node)
		f.sharer.Claim(out)
		f.passed[claim.UID] = out
		if out.Annotations[contract.AnnStorageProvisioner] != claim.Annotations[contract.AnnStorageProvisioner] {
			f.early[claim.UID] = struct{}{}
		}
		e.Object = out
		return e, true
	case known:
		delete(f.passed, claim.UID)
		gone := before.DeepCopy()
		gone.ResourceVersion = claim.ResourceVersion
		return watch.Event{Type: watch.Deleted, Object: gone}, true
	}
	return e, false
}

// keep holds the claim, or ends that, and remembers a copy that left this node. The caller holds f.mu.
func (f *filter) keep(claim *corev1.PersistentVolumeClaim, where placement, deleted bool) {
	former := f.held[claim.UID]
	delete(f.held, claim.UID)
	delete(f.early, claim.UID)
	delete(f.late, claim.UID)
	h, possible := hold(claim)
	h.follows(former, f.placer.node)
	switch {
	case deleted:
		delete(f.left, claim.UID)
	case (where == unknown || where == remoteBySource) && possible:
		f.held[claim.UID] = h
	case h.left && h.source.Name != "" && h.volume != "":
		f.remember(claim.UID, h)
	}
}

// retryEvents takes the claims of retry and returns their events. Only the stream
// calls it, so that these events do not overtake events of the source.
func (f *filter) retryEvents() []watch.Event {
	f.mu.Lock()
	resend := f.resend
	f.resend = map[types.UID]*corev1.PersistentVolumeClaim{}
	var known []*corev1.PersistentVolumeClaim
	var events, read []watch.Event
	others := map[types.UID]heldClaim{}
	for uid, claim := range resend {
		if passed, ok := f.passed[uid]; ok {
			known = append(known, passed)
		} else if h, ok := f.held[uid]; ok && claim == nil {
			others[uid] = h
		} else if _, late := f.late[uid]; claim != nil && (late || ok && h.matches(claim)) {
			read = append(read, watch.Event{Type: watch.Added, Object: claim})
		}
	}
	f.mu.Unlock()
	for uid, h := range others {
		f.placeHeld(uid, h)
	}
	for _, claim := range known {
		if e := (watch.Event{Type: watch.Modified, Object: claim}); f.placer.place(claim) == local {
			events = append(events, e)
		} else {
			read = append(read, e)
		}
	}
	for _, e := range read {
		if e, ok := f.apply(e); ok {
			events = append(events, e)
		}
	}
	return events
}
