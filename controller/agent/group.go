package agent

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// stopWithin is how long the parts of an agent may take to end. The pod has ten seconds, and the
// pools and sockets have to be closed in them, too.
const stopWithin = 3 * time.Second

// group runs the parts of an agent, and is the only place that starts any. When its context ends,
// or a part fails, all parts are cancelled and awaited for stopWithin. The caller then closes the
// pools whatever still runs: a thread that hangs on one disk must not keep the locks of the others.
type group struct {
	ctx    context.Context //nolint:containedctx // that of the parts
	cancel context.CancelFunc
	parts  sync.WaitGroup

	mu    sync.Mutex
	first error // of a part; guarded by mu
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// Go runs a part, which ends soon after its context. An error ends the group.
func (g *group) Go(part func(context.Context) error) {
	g.parts.Go(func() {
		if err := part(g.ctx); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.first == nil {
				g.first = err
			}
			g.cancel()
		}
	})
}

// Run is Go for a part without an error.
func (g *group) Run(part func(context.Context)) {
	g.Go(func(ctx context.Context) error { part(ctx); return nil })
}

// Wait waits until all parts have ended, or stopWithin longer than until the context ended or a part
// failed. It returns the first failure.
func (g *group) Wait() error {
	defer g.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.parts.Wait()
	}()
	select {
	case <-ended:
	case <-g.ctx.Done():
		select {
		case <-ended:
		case <-time.After(stopWithin):
			klog.FromContext(g.ctx).Info("Some parts of the agent still run, because a disk does not answer for example; the " +
				"agent ends all the same")
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first
}
