package nodegone

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// silence is the time in which a node has not answered.
type silence struct {
	at    time.Time
	uid   types.UID // of the Node that took its place, "" if there is none
	ready bool      // an agent was ready when it was checked last
	over  bool      // the grace period was over then
}

// wait returns what is left of the grace period of a node that does not exist, or that the Node
// with the UID replaced. The period begins when this process first misses the node, and again
// whenever an agent of a node that does not exist was ready since. So a restart of the operator
// only prolongs it.
func (r *Reconciler) wait(ctx context.Context, name string, uid types.UID) (time.Duration, error) {
	grace, err := r.Grace(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	q, ok := r.since[name]
	if !ok || q.uid != uid {
		q = silence{at: now, uid: uid}
	}
	if uid == "" {
		ready, unready, err := r.agent(ctx, name)
		if err != nil {
			return 0, err
		}
		if ready || q.ready {
			q.at = now
		}
		if unready.After(now) {
			unready = now // the clock of the node may be wrong
		}
		if unready.After(q.at) {
			q.at = unready // it was ready between two checks
		}
		q.ready = ready
	}
	rest := grace - now.Sub(q.at)
	q.over = rest <= 0
	r.since[name] = q
	return rest, nil
}
