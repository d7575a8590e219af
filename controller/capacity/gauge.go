package capacity

import (
	"context"
	"sync"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// askEvery is how often a pool is asked where nobody said that it changed.
	askEvery = 30 * time.Second
	// openWithin is how long a pool may take to be opened when the agent
	// starts, before it counts as not ready. What the agent before published
	// stays until then, or every restart would write zero and then the number.
	openWithin = 30 * time.Second
	// answerWithin is after how long a pool that does not answer counts as not
	// ready: a disk that hangs must not attract claims.
	answerWithin = 2 * time.Minute
)

// gauge asks one pool what it can promise. It has a goroutine of its own, so
// that a disk that hangs holds up nobody else.
type gauge struct {
	pool *volume.Pool
	wake chan struct{}

	mu    sync.Mutex
	told  uint64 // how often Changed was called
	last  level
	known bool      // there is a last level
	at    time.Time // when the pool last answered, or was first asked; zero before
}

func newGauge(pool *volume.Pool) *gauge { return &gauge{pool: pool, wake: make(chan struct{}, 1)} }

// tell says that the pool changed.
func (g *gauge) tell() {
	g.mu.Lock()
	g.told++
	g.mu.Unlock()
	sleep.Wake(g.wake)
}

// run asks the pool until the context ends, and calls heard after every
// answer.
func (g *gauge) run(ctx context.Context, heard func()) {
	begin := time.Now()
	g.mu.Lock()
	g.at = begin
	g.mu.Unlock()
	for opened := false; ; {
		l := g.ask()
		every := askEvery
		if opened = opened || l.ready || time.Since(begin) >= openWithin; opened {
			g.note(l)
			heard()
		} else {
			every = time.Second
		}
		if !sleep.OrWoken(ctx, every, g.wake) {
			return
		}
	}
}

// ask returns the pool's level. Whatever keeps the pool from answering makes
// it not ready; why, is said by who looks after it.
func (g *gauge) ask() level {
	g.mu.Lock()
	told := g.told // before asking: what is told later is asked about again
	g.mu.Unlock()
	s, err := g.pool.Space()
	if err != nil {
		return level{told: told}
	}
	return level{bytes: roundDown(s.Available), promised: s.Allocated + s.Elsewhere, total: s.Total, ready: true, told: told}
}

func (g *gauge) note(l level) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.known, g.at = l, true, time.Now()
}

// level returns what the pool can promise; false means that it is not known
// yet.
func (g *gauge) level(now time.Time) (l level, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.at.IsZero() && now.Sub(g.at) > answerWithin {
		return level{told: g.last.told}, true
	}
	return g.last, g.known
}
