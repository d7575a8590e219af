package volume

import (
	"fmt"
	"sync"
	"time"
)

// under are the calls that are under way on a pool.
type under struct {
	mu     sync.Mutex
	calls  map[*call]struct{}
	places turns // on the disk
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

// newCall returns a call on the pool that is not begun.
func (p *Pool) newCall(op string) *call {
	return newCall(op, p.title(), p.config.Patience)
}

// title names the pool in messages.
func (p *Pool) title() string {
	if p.config.Name == "" {
		return p.path
	}
	return fmt.Sprintf("pool %s in %s", p.config.Name, p.path)
}

// run does the call, and returns its error, or an ErrNotReady where the disk
// does not answer.
func (p *Pool) run(c *call, do func(*call) error) error {
	if err := p.under.begin(c); err != nil {
		return err
	}
	go c.run(do, func() { p.under.end(c) })
	left, err := c.result()
	switch {
	case !left:
		return err
	case c.silent() > 0:
		return c.hangs()
	}
	if err := p.under.hangs(); err != nil {
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
