package claims

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

var (
	// spread is the time over which the agents of a cluster distribute their checks.
	// The first agent records the event; the others find it.
	spread = timing.Scaled(8 * time.Second)
	// headStart is the time by which the operator, if there is one, is earlier.
	headStart = timing.Scaled(5 * time.Second)
	// remoteDelay is the time that another node has to serve the claim.
	remoteDelay = timing.Scaled(15 * time.Second)
	// unfitSpread is spread for agents that lack the pool of a claim. They are later
	// than those that have it, which know more. It is longer, because each of them may
	// list what all nodes publish.
	unfitSpread = timing.Scaled(24 * time.Second)
	// settleDelay is the time after the start in which this agent waits longer: other
	// agents may be starting too, and have published nothing yet.
	settleDelay = timing.Scaled(30 * time.Second)
	// recheckDelay is the pause before a claim is checked again if no answer was possible.
	recheckDelay = timing.Scaled(time.Minute)
)

// Checks that use the API server: per second, and at once. Any user can create claims.
const (
	checksPerSecond = 2
	checksAtOnce    = 20
)

// unservedRecorder records an event about each claim that no agent will serve:
//
//   - a claim that names our provisioner and no node,
//   - a claim that names, or for which the scheduler chose, a node that does not exist,
//   - a claim that names a PV that does not exist,
//   - a claim whose source, another claim, no node can copy,
//   - a claim whose class keeps the scheduler from choosing a node,
//   - a claim whose pool is not offered,
//   - a claim for which no node publishes enough space,
//   - a claim that waits for its pod and names a node, which has no effect.
//
// Every agent watches these claims, and a few check each of them; see checks. Each waits for
// a delay hashed from its node name and the claim, and records the event unless it exists. So
// does the operator, which is earlier. An agent checks one claim at a time, and few a second,
// so that many waiting claims neither keep it from its own nor load the API server.
type unservedRecorder struct {
	client kubernetes.Interface
	events *events.Recorder
	node   string
	class  func(name string) *storagev1.StorageClass
	// refusal is Config.Refusal.
	refusal func(*storagev1.StorageClass) string
	space   *Space                    // nil if nodes publish no space
	agents  func(context.Context) int // Config.Agents

	started time.Time
	queue   workqueue.TypedDelayingInterface[types.UID]
	// known has the names of nodes and PVs that exist, and the size that a node
	// publishes for a class.
	known *utilcache.LRUExpireCache

	mu      sync.Mutex
	pending map[types.UID]*pendingClaim
}

// pendingClaim is what is kept of a claim that may need an event. Every agent keeps all of
// them, and any user can create claims, so each field has a bounded length.
type pendingClaim struct {
	waiting
	ref corev1.ObjectReference
	due time.Time // of the next check
}

type waiting struct {
	where placement
	// named is the node or the PV that the claim names, or the node that was chosen; "" for none.
	named  string
	source contract.Named // the claim whose volume is copied
	class  string
	bytes  int64 // requested
}

func newUnservedRecorder(c *Config, class func(name string) *storagev1.StorageClass) *unservedRecorder {
	r := &unservedRecorder{
		client: c.Client, events: c.Events, node: c.Node, class: class, refusal: c.Refusal, space: c.Space,
		started: time.Now(), queue: workqueue.NewTypedDelayingQueue[types.UID](),
		known: utilcache.NewLRUExpireCache(mostKnown), pending: map[types.UID]*pendingClaim{},
		agents: c.Agents,
	}
	if r.agents == nil {
		r.agents = func(context.Context) int { return 0 }
	}
	return r
}

// update has a claim checked later if it may need an event, and forgets it if not. It does
// nothing if the claim waits for the same as before.
func (r *unservedRecorder) update(claim *corev1.PersistentVolumeClaim, where placement) {
	now := waitingOf(claim, where)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !needsEvent(now.where) || claim.DeletionTimestamp != nil {
		delete(r.pending, claim.UID)
		return
	}
	if p := r.pending[claim.UID]; p != nil && p.waiting == now {
		return
	}
	p := &pendingClaim{waiting: now, ref: events.Claim(claim)}
	r.pending[claim.UID] = p
	r.schedule(p, 0)
}

func (r *unservedRecorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.pending)
}

func waitingOf(claim *corev1.PersistentVolumeClaim, where placement) waiting {
	if where == local && waitsForPV(claim) {
		where = remoteByPV // the agent of the claim's node waits for its PV, too
	}
	w := waiting{where: where, class: contract.Bounded(contract.Of(claim)), bytes: contract.Bytes(claim)}
	switch where {
	case remoteByAnnotation, unchosen: // of an unchosen claim the annotation has no effect
		w.named = contract.Bounded(claim.Annotations[contract.AnnProvisionOnNode])
	case remoteByScheduler:
		w.named = contract.Bounded(claim.Annotations[contract.AnnSelectedNode])
	case remoteByPV:
		w.named = contract.Bounded(claim.Spec.VolumeName)
	case remoteBySource:
		source, _ := contract.CopiedClaim(claim)
		w.source = contract.Named{Namespace: contract.Bounded(source.Namespace), Name: contract.Bounded(source.Name)}
	}
	return w
}

// needsEvent reports whether a claim with this placement may never be served.
func needsEvent(where placement) bool {
	switch where {
	case unassigned, remoteByAnnotation, remoteByScheduler, remoteByPV, remoteBySource, unchosen, unscheduled, unserved:
		return true
	}
	return false
}

// schedule has the claim checked after the pause and this agent's delay. The caller holds the lock.
func (r *unservedRecorder) schedule(p *pendingClaim, pause time.Duration) {
	wait := pause + r.delay(p)
	p.due = time.Now().Add(wait)
	r.queue.AddAfter(p.ref.UID, wait)
}

// delay returns how long this agent waits for others to record the event.
func (r *unservedRecorder) delay(p *pendingClaim) time.Duration {
	part := func(of time.Duration, key string) time.Duration {
		return time.Duration(events.Hash(r.node, key) % uint64(of))
	}
	switch p.where {
	case unassigned, unscheduled:
		return headStart + part(spread, string(p.ref.UID))
	case unchosen:
		// Those that have the pool and do not offer it are earlier: unserved. The class
		// decides which agent is the first, so that one list answers for all its claims.
		base := headStart + remoteDelay + spread + max(0, settleDelay-time.Since(r.started))
		if sc := r.class(p.class); sc != nil && r.space.HasPool(sc) {
			return base + part(spread, p.class)
		}
		return base + spread + part(unfitSpread, p.class)
	}
	return headStart + remoteDelay + part(spread, string(p.ref.UID)) // another node may serve it
}

func (r *unservedRecorder) run(ctx context.Context) {
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	limit := flowcontrol.NewTokenBucketRateLimiter(checksPerSecond, checksAtOnce)
	for {
		uid, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		asked := r.next(ctx, uid)
		r.queue.Done(uid)
		if asked && limit.Wait(ctx) != nil {
			return
		}
	}
}

// next checks the claim if it is due, and schedules the next check: API servers delete
// events after a while. It reports whether it used the API server.
func (r *unservedRecorder) next(ctx context.Context, uid types.UID) (asked bool) {
	r.mu.Lock()
	p := r.pending[uid]
	if p != nil && time.Until(p.due) > 0 { // the queue has the time of an earlier check
		r.queue.AddAfter(uid, time.Until(p.due))
		p = nil
	}
	r.mu.Unlock()
	if p == nil {
		return false
	}
	a := answer{false, nextTurn()}
	if r.checks(ctx, p) {
		a = r.check(ctx, p)
	}
	klog.FromContext(ctx).V(4).Info("Checked a claim that waits", "claim", klog.KRef(p.ref.Namespace, p.ref.Name),
		"next", a.next)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[uid] == p {
		r.schedule(p, a.next)
	}
	return a.asked
}
