package claims

import (
	"context"
	"strconv"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

const (
	// checkers is how many agents check a claim in an hour, on average. Each check asks the API
	// server, and any user can create claims: if all of 5,000 agents checked each, one user could
	// cause 10,000 requests a second.
	checkers = 5
	// checkersFor is the time after which other agents are the checkers of a claim. All may be away.
	checkersFor = time.Hour
	// mostUnserved is how many claims of a pool that is not offered each of its agents checks: only
	// these agents know why it is not, and they may be few.
	mostUnserved = 20
)

// checks reports whether this agent is one of those that check the claim in this hour, by a hash of
// node, claim and hour. It is if the number of agents is not known.
func (r *unservedRecorder) checks(ctx context.Context, p *pendingClaim) bool {
	n := uint64(max(0, r.agents(ctx)))
	if n <= checkers || p.where == unserved && r.unserved() <= mostUnserved {
		return true
	}
	hour := strconv.FormatInt(time.Now().Unix()/int64(checkersFor/time.Second), 10)
	return events.Hash(r.node, string(p.ref.UID), hour)%n < checkers
}

// nextTurn returns the pause until other agents are the checkers.
func nextTurn() time.Duration {
	return time.Until(time.Now().Truncate(checkersFor).Add(checkersFor))
}

// unserved returns how many claims wait for a pool that this node does not offer.
func (r *unservedRecorder) unserved() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pending {
		if p.where == unserved {
			n++
		}
	}
	return n
}
