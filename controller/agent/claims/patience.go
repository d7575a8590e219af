package claims

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// silentFor is how long a claim waits without an event for a pool that another agent of this node
// has. That agent may serve the claim, or is about to end. A name does not show which classes it
// serves.
var silentFor = timing.Scaled(2 * time.Minute)

// Patience remembers since when claims wait for a pool that another agent has. The zero value is not
// valid; use NewPatience. Methods may be called from many goroutines.
type Patience struct {
	mu    sync.Mutex
	since *lru.Cache // by the claim's UID
}

// NewPatience returns a Patience that no claim waits in.
func NewPatience() *Patience { return &Patience{since: lru.New(RememberMost)} }

// Ends reports whether the claim was first asked about so long ago that its user gets an event.
func (p *Patience) Ends(claim types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok := p.since.Get(claim); ok {
		return time.Since(first.(time.Time)) >= silentFor
	}
	p.since.Add(claim, time.Now())
	return false
}
