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

// How long an empty claim waits for copies of its namespace.
var (
	// emptyWait is for copies without a node. The scheduler writes the claims of a pod one after the other.
	emptyWait = timing.Scaled(3 * time.Second)
	// movesWithin is for a copy that names this node and can be moved: the agent that has its source is
	// away, or refuses the copy.
	movesWithin = timing.Scaled(30 * time.Second)
	// askedWithin is for a copy that names this node and cannot be moved yet, because the
	// controller-manager has not asked for it. That writes 20 times in a second, for all claims.
	askedWithin = timing.Scaled(5 * time.Minute)
	// emptyAgain is the pause before the copies are looked at again.
	emptyAgain = timing.Scaled(time.Second)
	// emptyTold is after how long the claim's user reads that it waits.
	emptyTold = timing.Scaled(10 * time.Second)
)

// mostGivenBack is how often an empty claim is given back because of copies, which may be of other pods.
const mostGivenBack = 10

// awaitsCopy reports whether an empty claim is not served now, because a pod may use it together with a
// copy that is made on another node: the pod could never run then. Agents may not read pods. So the claim
// waits while any copy of its namespace has no node or this one, and goes back to the scheduler once one of
// them moved to another node.
func (c *Controller) awaitsCopy(ctx context.Context, claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) bool {
	if _, by := contract.NodeOf(claim, sc); by != contract.AnnSelectedNode || !contract.Delayed(sc) || c.recorded(claim) {
		return false
	}
	at := c.empty.judge(claim.UID, c.Info.Name(), c.Claims.CopiesIn(claim.Namespace), time.Now())
	switch {
	case at.moved != "" && c.Claims.IsEarly(claim.UID): // Kubernetes is about to write to the claim
		return true
	case at.moved != "":
		return c.giveToCopy(ctx, claim, at.moved)
	case at.look:
		time.AfterFunc(emptyAgain, func() {
			c.Claims.RetryLater(claim.UID)
			c.Claims.Retry()
		})
	}
	if at.waits && at.waited > emptyTold {
		c.Events.Note(ctx, events.Claim(claim), "awaits a copy", events.Copying, fmt.Sprintf(
			"a copy of this namespace may yet leave node %s for the node of its source: the claim waits, in case that one pod "+
				"uses both", c.Info.Name()))
	}
	return at.waits
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
	since  time.Time          // when the claim began to wait
	again  time.Time          // when the copies are looked at again
	copies map[types.UID]bool // that had no node or this one
	shown  map[types.UID]bool // that named another node when judge last found one that moved
	known  map[types.UID]bool // shown when the claim was given back: the scheduler knows their nodes
	given  int
}

// standing is what an empty claim does beside copies.
type standing struct {
	moved  string        // the node to which a copy moved: the claim is given back
	waits  bool          // it is not served now
	look   bool          // the caller has it judged again after emptyAgain
	waited time.Duration // so far
}

func newEmpties() *empties { return &empties{seen: lru.New(claims.RememberMost)} }

func (e *empties) of(claim types.UID) beside {
	if b, ok := e.seen.Get(claim); ok {
		return b.(beside)
	}
	return beside{copies: map[types.UID]bool{}}
}

// judge returns what the claim does now. While a copy may yet move, the claim waits, so that it is given
// back once for many, but not for longer than movesWithin if one has moved.
func (e *empties) judge(claim types.UID, node string, all []claims.Copy, now time.Time) (at standing) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.of(claim)
	if b.since.IsZero() {
		b.since = now
	}
	at.waited = now.Sub(b.since)
	for _, one := range all {
		switch {
		case one.Node == "" || one.Node == node:
			b.copies[one.UID] = true
			delete(b.known, one.UID)
			at.waits = at.waits || mayMove(one, at.waited, now)
		case (one.Left || b.copies[one.UID]) && !b.known[one.UID] && b.given < mostGivenBack:
			at.moved = one.Node
		}
	}
	switch {
	case at.waits && (at.moved == "" || at.waited < movesWithin):
		if at.moved, at.look = "", !now.Before(b.again); at.look {
			b.again = now.Add(emptyAgain)
		}
	case at.moved != "":
		at.waits, b.shown = false, elsewhere(all, node)
	case len(b.copies) == 0:
		return standing{} // nothing is remembered of claims that no copy is beside
	}
	e.seen.Add(claim, b)
	return at
}

// mayMove reports whether the copy, which has no node or that of an empty claim, may soon have another one.
// waited is how long the claim has waited.
func mayMove(one claims.Copy, waited time.Duration, now time.Time) bool {
	switch {
	case one.Node == "":
		return waited < emptyWait
	case one.Asked:
		return now.Sub(one.Since) < movesWithin
	}
	return now.Sub(one.Since) < askedWithin
}

// gaveBack counts that the claim went back to the scheduler. Its wait begins again.
func (e *empties) gaveBack(claim types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.of(claim)
	e.seen.Add(claim, beside{copies: map[types.UID]bool{}, known: b.shown, given: b.given + 1})
}

// elsewhere returns the copies that name another node.
func elsewhere(all []claims.Copy, node string) map[types.UID]bool {
	there := map[types.UID]bool{}
	for _, one := range all {
		if one.Node != "" && one.Node != node {
			there[one.UID] = true
		}
	}
	return there
}
