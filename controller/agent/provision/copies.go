package provision

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// copies remembers the claims whose copies failed or gave way to a pod. Methods may be called from many
// goroutines.
type copies struct {
	mu    sync.Mutex
	seen  *lru.Cache // tries by the claim's UID
	freed *lru.Cache // by volume that copies wait for: when a pod last ceased to use it, zero if none did
}

type tries struct {
	yields int
	pause  time.Duration
	failed time.Time
	next   time.Time
	awaits string // the source, if the last try failed because something used it
}

func newCopies() *copies {
	return &copies{seen: lru.New(claims.RememberMost), freed: lru.New(claims.RememberMost)}
}

func (c *copies) of(claim types.UID) tries {
	if t, ok := c.seen.Get(claim); ok {
		return t.(tries)
	}
	return tries{}
}

// waits reports whether the next try of a copy that failed is later.
func (c *copies) waits(claim types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.of(claim)
	if freed, ok := c.freed.Get(t.awaits); ok && freed.(time.Time).After(t.failed) {
		return false
	}
	return time.Now().Before(t.next)
}

// failed has the next try wait, each time longer, but no longer than until a pod ceases to use the volume
// awaits, if that is not "".
func (c *copies) failed(claim types.UID, awaits string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.of(claim)
	t.pause = sleep.Doubled(t.pause, copyAgainFirst, copyAgainLast)
	t.failed, t.awaits = time.Now(), awaits
	t.next = t.failed.Add(t.pause)
	c.seen.Add(claim, t)
	if _, ok := c.freed.Get(awaits); !ok && awaits != "" {
		c.freed.Add(awaits, time.Time{})
	}
}

// unpublished notes that a pod ceased to use a volume. It returns false if no copy waited for that.
func (c *copies) unpublished(volume string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.freed.Get(volume); !ok {
		return false
	}
	c.freed.Add(volume, time.Now())
	return true
}

// yielded counts that the copy gave way to a pod, and returns how often it did.
func (c *copies) yielded(claim types.UID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.of(claim)
	t.yields++
	c.seen.Add(claim, t)
	return t.yields
}

func (c *copies) yields(claim types.UID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of(claim).yields
}

func (c *copies) forget(claim types.UID) { c.seen.Remove(claim) }
