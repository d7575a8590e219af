package provision

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/nodechoice"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
)

var (
	// emptyWait is how long an empty claim waits for copies of its namespace to get their nodes. The
	// scheduler writes the claims of a pod one after the other.
	emptyWait = timing.Scaled(3 * time.Second)
)

// mostGivenBack is how often an empty claim is given back because of copies, which may be of other pods.
const mostGivenBack = 10

// awaitsCopy reports whether an empty claim is not served now, because a pod may use it together with a
// copy that is made on another node: the pod could never run then. It waits for emptyWait while a copy of
// its namespace has no node or this one, and goes back to the scheduler if that moved to another node.
func (c *Controller) awaitsCopy(ctx context.Context, claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) bool {
	if _, by := contract.NodeOf(claim, sc); by != contract.AnnSelectedNode || !contract.Delayed(sc) || c.recorded(claim) {
		return false
	}
	wait, moved := c.empty.judge(claim.UID, c.Info.Name(), c.Claims.CopiesIn(claim.Namespace), time.Now())
	switch {
	case moved != "" && c.Claims.IsEarly(claim.UID): // Kubernetes is about to write to the claim
		return true
	case moved != "":
		return c.giveToCopy(ctx, claim, moved)
	case wait > 0:
		time.AfterFunc(wait, func() {
			c.Claims.RetryLater(claim.UID)
			c.Claims.Retry()
		})
		return true
	}
	return false
}

// recorded reports whether the claim has a volume.
func (c *Controller) recorded(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(c.Pools.All(), func(p *volume.Pool) bool {
		r, ok := p.Cached(contract.PVName(claim))
		return ok && r.Owner.UID == string(claim.UID)
	})
}

// giveToCopy gives an empty claim back to the scheduler. It returns false if the agent may not, and serves
// the claim then.
func (c *Controller) giveToCopy(ctx context.Context, claim *corev1.PersistentVolumeClaim, node string) bool {
	_, err := nodechoice.Unchoose(ctx, c.Client, claim)
	switch {
	case err == nil:
		c.empty.gaveBack(claim.UID)
		c.Events.Note(ctx, events.Claim(claim), "beside a copy", events.Copying, fmt.Sprintf(
			"a copy of this namespace is made on node %s, where its source is: the scheduler chooses again for this claim, in "+
				"case that one pod uses both", node))
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // the watch reports what changed
	case live.Permanent(err):
		return false
	default:
		klog.FromContext(ctx).Error(err, "Cannot give the claim back to the scheduler; the agent tries again", "claim",
			klog.KObj(claim))
		c.Claims.RetryLater(claim.UID)
	}
	return true
}

// empties remembers empty claims beside copies. Methods may be called from many goroutines.
type empties struct {
	mu   sync.Mutex
	seen *lru.Cache // besides by the claim's UID
}

type beside struct {
	since  time.Time
	copies map[types.UID]bool // that had no node or this one
	shown  map[types.UID]bool // that were bound when judge last named a node
	bound  map[types.UID]bool // shown when the claim was given back: the scheduler knows their nodes
	given  int
}

func newEmpties() *empties { return &empties{seen: lru.New(claims.RememberMost)} }

func (e *empties) of(claim types.UID) beside {
	if b, ok := e.seen.Get(claim); ok {
		return b.(beside)
	}
	return beside{copies: map[types.UID]bool{}}
}

// judge returns how long the claim waits, 0 if it does not, and the node to which a copy has moved that
// the claim waited for, or that named this node before.
func (e *empties) judge(claim types.UID, node string, all []claims.Copy, now time.Time) (wait time.Duration, moved string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, near := e.of(claim), false
	for _, one := range all {
		switch {
		case b.bound[one.UID]:
		case one.Node == "" || one.Node == node:
			b.copies[one.UID], near = true, true
		case (one.Left || b.copies[one.UID]) && b.given < mostGivenBack:
			b.shown = boundOf(all)
			e.seen.Add(claim, b)
			return 0, one.Node
		}
	}
	if !near {
		return 0, ""
	}
	if b.since.IsZero() {
		b.since = now
	}
	e.seen.Add(claim, b)
	return max(0, emptyWait-now.Sub(b.since)), ""
}

// gaveBack counts that the claim went back to the scheduler. Its wait begins anew.
func (e *empties) gaveBack(claim types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.of(claim)
	e.seen.Add(claim, beside{copies: map[types.UID]bool{}, bound: b.shown, given: b.given + 1})
}

// boundOf returns the copies that are bound.
func boundOf(all []claims.Copy) map[types.UID]bool {
	bound := map[types.UID]bool{}
	for _, one := range all {
		if one.Bound {
			bound[one.UID] = true
		}
	}
	return bound
}
