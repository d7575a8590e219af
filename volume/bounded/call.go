package bounded

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

const (
	// DefaultPatience is how long a caller waits for the disk. A busy disk flushes writes within
	// seconds, and the workers that wait also serve the other pools.
	DefaultPatience = 6 * time.Second
	// longPatience is how many times as long one file may take in work that visits many: a kernel
	// needs long to remove a file of some terabytes.
	longPatience = 6
	// callsAtOnce bounds the calls on one pool's disk, and so the threads that the disk can hold.
	// Work that has a single goroutine does not count.
	callsAtOnce = 16
)

// errLeft ends a call whose caller does not wait any more. No caller gets it.
var errLeft = errors.New("the caller has left")

// Call is one call on a pool. The methods of a nil Call do nothing: it may wait, because it has no
// caller that waits for it.
type Call struct {
	op       string
	where    string        // the pool, in words
	patience time.Duration // see Config.Patience
	steps    bool          // it consists of steps, each of which may take that long
	began    time.Time
	progress atomic.Int64  // nanoseconds from began to the last step
	gone     chan struct{} // closed when the caller leaves
	done     chan struct{} // closed when the call has returned; then the rest may be read
	err      error
	panicked any

	mu    sync.Mutex // guards what follows
	phase phase
	left  bool
	back  time.Duration // from began to the return of the caller's function
}

type phase int

const (
	onDisk  phase = iota // the time runs
	waiting              // for another call of this process
	outside              // in a function of the caller, which waits for its end
)

func newCall(op, where string, patience time.Duration) *Call {
	return &Call{op: op, where: where, patience: patience, began: time.Now(), err: errLeft,
		gone: make(chan struct{}), done: make(chan struct{})}
}

// Progress notes progress.
func (c *Call) Progress() {
	if c != nil {
		c.progress.Store(int64(time.Since(c.began)))
	}
}

// enter changes the phase. It returns errLeft if the caller has left.
func (c *Call) enter(to phase) error {
	c.Progress()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return errLeft
	}
	if c.phase == outside { // at once with the phase, which leave reads too
		c.back = time.Since(c.began)
	}
	c.phase = to
	return nil
}

// StillWanted returns errLeft if the caller has left. The caller then has an error by which
// nothing was done, so the call must not begin its work.
func (c *Call) StillWanted() error {
	if c == nil {
		return nil
	}
	return c.enter(onDisk)
}

// await waits until another call of this process closes ch or sends to it.
func (c *Call) await(ready <-chan struct{}) error {
	if c == nil {
		<-ready
		return nil
	}
	if err := c.enter(waiting); err != nil {
		return err
	}
	select {
	case <-ready:
		return c.enter(onDisk)
	case <-c.gone:
		return errLeft
	}
}

// Callback calls a function of the caller, unless the caller has left. The caller then waits for
// its end without a bound, because the function uses the caller's variables.
func (c *Call) Callback(f func() error) error {
	if c == nil {
		return f()
	}
	if err := c.enter(outside); err != nil {
		return err
	}
	defer func() { _ = c.enter(onDisk) }() // the caller has waited, so it has not left
	return f()
}

// silent returns for how long a call that is on the disk has made no progress.
func (c *Call) silent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != onDisk {
		return 0
	}
	return time.Since(c.began) - time.Duration(c.progress.Load())
}

// hangsAfter is the time without progress after which the disk counts as hanging.
func (c *Call) hangsAfter() time.Duration { return c.patience * 5 / 6 }

// leave makes the caller leave if its time is over. Otherwise it returns how long the caller still
// waits at least.
func (c *Call) leave() (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == outside {
		return c.patience
	}
	waited := time.Since(c.began) - c.back
	if c.steps {
		waited = time.Since(c.began) - time.Duration(c.progress.Load())
	}
	if waited >= c.patience {
		c.left = true
		close(c.gone)
	}
	return c.patience - waited
}

func (c *Call) run(do func(*Call) error, ended func()) {
	defer close(c.done)
	defer ended()
	defer func() {
		if c.panicked = recover(); c.panicked != nil && c.StillWanted() != nil {
			panic(c.panicked) // without a caller it would be lost
		}
	}()
	c.err = do(c)
}

// result waits for the call, and returns its error. left is true if the caller left before its end.
func (c *Call) result() (left bool, err error) {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			if c.panicked != nil {
				panic(c.panicked)
			}
			return false, c.err
		case <-timer.C:
			wait := c.leave()
			if wait <= 0 {
				return true, nil
			}
			timer.Reset(wait)
		}
	}
}

func (c *Call) hangs() error {
	return &fault.HangError{Where: c.where, Op: c.op, Since: c.began.Add(time.Duration(c.progress.Load()))}
}

// Sleep waits for the duration. If the context ends, it returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Paced returns pace, each step of which is progress of the call. A nil pace takes no time.
func (c *Call) Paced(pace func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		c.Progress()
		if pace == nil {
			return ctx.Err()
		}
		return pace(ctx)
	}
}
