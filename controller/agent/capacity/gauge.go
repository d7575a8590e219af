package capacity

import (
	"context"
	"sync"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
)

// readEvery is the pause between two reads of a pool without a call of Changed.
var readEvery = timing.Scaled(30 * time.Second)

const (
	// openWithin is how long a pool may take to open after the start of the agent
	// before it counts as not ready. Until then the published size stays, so that
	// not every restart writes zero first.
	openWithin = 30 * time.Second
	// respondWithin is the time after which a pool that does not respond counts as
	// not ready, so that the scheduler does not place claims on it.
	respondWithin = 2 * time.Minute
)

// gauge reads the available space of one pool. It has its own goroutine, so that a disk
// that does not respond does not delay other pools.
type gauge struct {
	pool *volume.Pool
	wake chan struct{}

	mu      sync.Mutex // guards what follows
	changes uint64     // calls of changed
	last    sample
	known   bool      // last is set
	at      time.Time // of the last response, or of the first read; zero before
}

func newGauge(pool *volume.Pool) *gauge { return &gauge{pool: pool, wake: make(chan struct{}, 1)} }

// changed causes a read of the pool. It never blocks.
func (g *gauge) changed() {
	g.mu.Lock()
	g.changes++
	g.mu.Unlock()
	sleep.Wake(g.wake)
}

// run reads the pool until the context ends, and calls updated after every read.
func (g *gauge) run(ctx context.Context, updated func()) {
	begin := time.Now()
	g.mu.Lock()
	g.at = begin
	g.mu.Unlock()
	for opened := false; ; {
		l := g.read()
		every := readEvery
		if opened = opened || l.ready || time.Since(begin) >= openWithin; opened {
			g.set(l)
			updated()
		} else {
			every = time.Second
		}
		if !sleep.OrWoken(ctx, every, g.wake) {
			return
		}
	}
}

// read returns a sample of the pool. If the pool returns an error, which package monitor
// reports, the sample is not ready.
func (g *gauge) read() sample {
	g.mu.Lock()
	changes := g.changes // before the read: a later change causes another one
	g.mu.Unlock()
	s, err := g.pool.Space()
	if err != nil {
		return sample{changes: changes, why: err.Error()}
	}
	return sample{bytes: roundDown(s.Obtainable()), allocated: s.Allocated + s.Elsewhere, total: s.Total, ready: true,
		noInodes: s.NoInodes, changes: changes}
}

func (g *gauge) set(l sample) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.known, g.at = l, true, time.Now()
}

// sample returns the last sample, or one that is not ready if the pool does not respond.
// known is false before the first one.
func (g *gauge) sample(now time.Time) (l sample, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.at.IsZero() && now.Sub(g.at) > respondWithin {
		return sample{changes: g.last.changes, why: "the disk does not respond"}, true
	}
	return g.last, g.known
}
