package nodegone

import (
	"context"
	"errors"
	"sync"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// longestStop is for how long the process may stand still before what it knew counts for nothing: the
// duration of the Lease of its leader election. Another process may lead by then.
const longestStop = 15 * time.Second

// fresh is for how long the facts about a node permit a write. A call may take longer without an end:
// client-go waits for its own limit, and for a busy API server.
var fresh = 10 * time.Second

// errStale is the error of a write whose facts are too old: they are read again.
var errStale = errors.New("the node was checked too long ago: the API server is slow, or this process stood still")

// pulse notices that the process stood still, because its machine was suspended or its container was
// frozen: what happened meanwhile was not watched.
type pulse struct {
	mu            sync.Mutex
	last, resumed time.Time // guarded by mu
}

// beat notes that the process runs. It returns when that went on after it had stood still, zero if it
// never did.
func (p *pulse) beat(now time.Time) (resumed time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() && sleep.Elapsed(p.last, now) > longestStop {
		p.resumed = now
	}
	p.last = now
	return p.resumed
}

// run beats until the context is done.
func (p *pulse) run(ctx context.Context) error {
	for tick := time.NewTicker(longestStop / 3); ; {
		p.beat(time.Now())
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// ifGone has write send what gives a volume up, with the facts, if the volume is still lost in the same
// way. Nothing that takes time may lie between the last look at the node and that request, which fails
// if it is not sent soon.
func (r *Reconciler) ifGone(ctx context.Context, s step, write func(context.Context, identity.NodeFacts) error) error {
	read := time.Now()
	f, ok, err := r.gone(ctx, s)
	if !ok || err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, read.Add(fresh))
	defer cancel()
	if sleep.Elapsed(read, time.Now()) > fresh {
		return errStale
	}
	return write(ctx, f)
}
