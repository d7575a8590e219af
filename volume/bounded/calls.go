package bounded

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Calls has the calls that are under way on the disk of a pool.
type Calls struct {
	where    string // the pool, in words
	patience time.Duration
	mu       sync.Mutex
	calls    map[*Call]struct{}
	places   Turns                     // on the disk
	left     atomic.Pointer[time.Time] // when a call of Do left the disk last; nil before
}

// NewCalls returns the calls on a disk, which errors name as where. A caller waits for patience.
func NewCalls(where string, patience time.Duration) *Calls {
	return &Calls{where: where, patience: patience, calls: map[*Call]struct{}{}, places: make(Turns, callsAtOnce)}
}

// stuck returns the error of the call that has waited longest for the disk, nil if the disk
// answers. The caller holds mu.
func (s *Calls) stuck() error {
	var worst *Call
	var longest time.Duration
	for c := range s.calls {
		if silent := c.silent(); silent > longest && silent >= c.hangsAfter() {
			worst, longest = c, silent
		}
	}
	if worst == nil {
		return nil
	}
	return worst.hangs()
}

// begin adds a call. It returns an error if the disk does not answer an earlier one.
func (s *Calls) begin(c *Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stuck(); err != nil {
		return err
	}
	s.calls[c] = struct{}{}
	return nil
}

func (s *Calls) end(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c)
}

// Hangs returns the error of a disk that does not answer, or nil.
func (s *Calls) Hangs() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck()
}

// Do makes a call that must end within the patience. At most callsAtOnce are on the disk at once.
func (s *Calls) Do(op string, do func(*Call) error) error {
	return s.run(newCall(op, s.where, s.patience), func(c *Call) error {
		release, err := s.places.Take(c)
		if err != nil {
			return err
		}
		defer release()
		defer func() {
			now := time.Now()
			s.left.Store(&now)
		}()
		return do(c)
	})
}

// untilNext is how soon the next call of Do is expected after one: a claim is served by several, with
// requests to the API server in between.
const untilNext = 20 * time.Millisecond

// Yield waits while calls of Do are on the disk or expected there, but not longer than most: for work in
// the background that would delay their flushes. It returns the error of the context.
func (s *Calls) Yield(ctx context.Context, most time.Duration) error {
	for end := time.Now().Add(most); s.busy() && time.Now().Before(end); {
		if err := Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *Calls) busy() bool {
	left := s.left.Load()
	return len(s.places) > 0 || left != nil && time.Since(*left) < untilNext
}

// DoInSteps makes a call, each step of which may take as long as the patience.
func (s *Calls) DoInSteps(op string, do func(*Call) error) error {
	c := newCall(op, s.where, s.patience)
	c.steps = true
	return s.run(c, do)
}

// DoInLongSteps is DoInSteps for many files, each of which may take longPatience times as long.
func (s *Calls) DoInLongSteps(op string, do func(*Call) error) error {
	c := newCall(op, s.where, longPatience*s.patience)
	c.steps = true
	return s.run(c, do)
}

// run makes the call, and returns its error, or an ErrNotReady if the disk does not answer.
func (s *Calls) run(c *Call, do func(*Call) error) error {
	if err := s.begin(c); err != nil {
		return err
	}
	go c.run(do, func() { s.end(c) })
	left, err := c.result()
	switch {
	case !left:
		return err
	case c.silent() > 0:
		return c.hangs()
	}
	if err := s.Hangs(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %q has waited for other calls on %s for %s; try again", fault.ErrNotReady, c.op, c.where,
		c.patience)
}

// Alone is DoInSteps for a path that has no Calls yet, with DefaultPatience.
func Alone(op, path string, do func(*Call) error) error {
	c := newCall(op, path, DefaultPatience)
	c.steps = true
	go c.run(do, func() {})
	if left, err := c.result(); !left {
		return err
	}
	return c.hangs()
}
