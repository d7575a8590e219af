package volume

import (
	"fmt"
	"sync"
	"time"
)

// under are the calls that are under way on a pool.
type under struct {
	where    string // the pool, in words
	patience time.Duration
	mu       sync.Mutex
	calls    map[*call]struct{}
	places   turns // on the disk
}

func newUnder(where string, patience time.Duration) *under {
	return &under{where: where, patience: patience, calls: map[*call]struct{}{}, places: make(turns, callsAtOnce)}
}

// stuck returns the call that a disk has not answered for longest, nil where
// the disk answers. The caller holds mu.
func (u *under) stuck() (worst *call) {
	var longest time.Duration
	for c := range u.calls {
		if silent := c.silent(); silent > longest && silent >= c.hangsAfter() {
			worst, longest = c, silent
		}
	}
	return worst
}

// begin notes a call, unless the disk does not answer those before.
func (u *under) begin(c *call) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if stuck := u.stuck(); stuck != nil {
		return stuck.hangs()
	}
	u.calls[c] = struct{}{}
	return nil
}

func (u *under) end(c *call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, c)
}

// hangs returns the error of a disk that does not answer, nil where it does.
func (u *under) hangs() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if stuck := u.stuck(); stuck != nil {
		return stuck.hangs()
	}
	return nil
}

// do does a call that has to end within the patience, one of at most callsAtOnce
// on the disk.
func (u *under) do(op string, do func(*call) error) error {
	return u.run(newCall(op, u.where, u.patience), func(c *call) error {
		give, err := u.places.take(c)
		if err != nil {
			return err
		}
		defer give()
		return do(c)
	})
}

// doInSteps does a call each step of which may take as long as the patience.
func (u *under) doInSteps(op string, do func(*call) error) error {
	c := newCall(op, u.where, u.patience)
	c.steps = true
	return u.run(c, do)
}

// doInLongSteps is doInSteps for work that visits many files: each may take
// longPatience times as long.
func (u *under) doInLongSteps(op string, do func(*call) error) error {
	c := newCall(op, u.where, longPatience*u.patience)
	c.steps = true
	return u.run(c, do)
}

// run does the call, and returns its error, or an ErrNotReady where the disk
// does not answer.
func (u *under) run(c *call, do func(*call) error) error {
	if err := u.begin(c); err != nil {
		return err
	}
	go c.run(do, func() { u.end(c) })
	left, err := c.result()
	switch {
	case !left:
		return err
	case c.silent() > 0:
		return c.hangs()
	}
	if err := u.hangs(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %q has waited for other calls on %s for %s; try again", ErrNotReady, c.op, c.where, c.patience)
}

// alone is run for what is asked of a path before there is a pool.
func alone(op, path string, do func(*call) error) error {
	c := newCall(op, path, defaultPatience)
	c.steps = true
	go c.run(do, func() {})
	if left, err := c.result(); !left {
		return err
	}
	return c.hangs()
}
