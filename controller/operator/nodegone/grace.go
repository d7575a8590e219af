package nodegone

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
)

// silence is the time in which a node has not answered.
type silence struct {
	at    time.Time
	uid   types.UID // of the Node that took its place, "" if there is none
	ready bool      // an agent was ready when it was checked last
	// over is set if the grace period was over then, and losses has what was lost since when.
	over   bool
	losses map[loss]since
	pause  time.Duration // before the next pass, while volumes are released
}

// loss is what was lost together: the volumes of one pool, of one Node of the name. A second disk
// that is given up later is another one.
type loss struct{ nodeUID, pool, missing string }

// since is when a loss was first seen, and whether its grace period was over when it was checked
// last.
type since struct {
	at   time.Time
	over bool
}

func lossOf(h identity.Home) loss { return loss{h.NodeUID, h.Pool, h.Missing} }

// wait returns what is left of the grace period of a node that does not exist, or that the Node
// with the UID replaced. The period begins when this process first misses the node, and again
// whenever an agent of a node that does not exist was ready since, or the process stood still: the
// node may have been there. So a restart of the operator only prolongs it. What was lost later has a period of its own; next is the end of the first one.
func (r *reader) wait(ctx context.Context, name string, l lost) (rest, next time.Duration, err error) {
	grace, err := r.Grace(ctx)
	if err != nil {
		return 0, 0, err
	}
	now := time.Now()
	q, ok := r.since[name]
	if !ok || q.uid != l.uid || r.pulse.beat(now).After(q.at) {
		q = silence{at: now, uid: l.uid}
	}
	if l.uid == "" {
		agent, unready, err := r.agent(ctx, name)
		if err != nil {
			return 0, 0, err
		}
		ready := agent != nil
		if ready || q.ready {
			q.at = now
		}
		if unready.After(now) {
			unready = now // the clock of the node may be wrong
		}
		if unready.After(q.at) {
			// It was ready between two checks. By this process's own clock from here on: if that is set
			// meanwhile, no time passes.
			q.at = now.Add(unready.Sub(now))
		}
		q.ready = ready
	}
	rest = grace - now.Sub(q.at)
	q.over = rest <= 0
	next = q.addLosses(l.pvs, now, grace, rest)
	r.since[name] = q
	return rest, next, nil
}

// addLosses notes the losses of the PVs, and forgets others: one that comes back is another one. It
// returns when the first is over that is not, rest if all are.
func (q *silence) addLosses(pvs []corev1.PersistentVolume, now time.Time, grace,
	rest time.Duration) (next time.Duration) {
	before, began := q.losses, now
	if before == nil {
		began = q.at // they were lost with the node
	}
	next = rest
	q.losses = map[loss]since{}
	for i := range pvs {
		h, _ := identity.HomeOf(&pvs[i])
		s, seen := before[lossOf(h)]
		if !seen {
			s.at = began
		}
		left := max(rest, grace-now.Sub(s.at))
		if s.over = left <= 0; !s.over && (next <= 0 || left < next) {
			next = left
		}
		q.losses[lossOf(h)] = s
	}
	return next
}
