package pooldir

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Config configures the directory of a pool.
type Config struct {
	Where   string // the pool, in words
	Path    string // absolute and clean
	Mount   string // see Config.Mount
	Mounted func(dir string) error
	// Owned returns nil unless what is mounted at Mount is another pool's; nil asks nothing.
	Owned    func(dir string) error
	Label    string // see Config.Label
	Inner    []string
	Holder   string
	Patience time.Duration
	// NotOffered is the reason why the pool is never opened; "" opens it.
	NotOffered string
	// Selected returns whether the pool belongs on this node, and why not; nil is Selected.
	Selected func() (Selection, string)
	// Expected is called at every (re)opening; it is not nil.
	Expected func() Expected
	Step     func(name string)
	// Prepare is called at every (re)opening, with the pool locked and no other call on the
	// directory. With an error the pool stays closed.
	Prepare func(*bounded.Call, *Dir) error
	// Twin returns the other pool of this process, in words, whose Opener is one that same
	// returns true for, or "". It must not call that pool.
	Twin func(same func(*Opener) bool) string
	// Used reports whether this process has records of the pool.
	Used func() bool
	// Opened is called with the filesystem of the pool after it was opened, and with "" before an
	// open pool is abandoned.
	Opened func(filesystem string)
}

// Opener keeps the directory of a pool open. Before each use it checks that the path still leads to
// that directory, and reopens the directory if not.
type Opener struct {
	config Config
	calls  *bounded.Calls

	// door admits calls that use the directory, and a call that replaces it alone.
	door   bounded.Door
	dir    atomic.Pointer[Dir] // nil while the pool is not open
	wanted atomic.Bool         // Open was called
	closed atomic.Bool         // Close was called

	elsewhere atomic.Pointer[string] // see Elsewhere

	id atomic.Pointer[string] // of the pool that was opened first or last; nil before
}

// New returns an Opener. It does not use the disk.
func New(c Config) *Opener {
	if c.Selected == nil {
		c.Selected = func() (Selection, string) { return Selected, "" }
	}
	return &Opener{config: c, calls: bounded.NewCalls(c.Where, c.Patience)}
}

// ID returns the pool's identity, a UUID, or "" before the pool is opened for the first time.
func (o *Opener) ID() string {
	if id := o.id.Load(); id != nil {
		return *id
	}
	return ""
}

func (o *Opener) opened(id, filesystem string) {
	o.id.Store(&id)
	o.config.Opened(filesystem)
}

// isOpenAt reports whether the directory is open and is that one, through whatever mount.
func (o *Opener) isOpenAt(at place) bool {
	d := o.dir.Load()
	return d != nil && d.at.major == at.major && d.at.minor == at.minor && d.at.inode == at.inode
}

// Open opens the directory; see Pool.Open.
func (o *Opener) Open() error {
	o.wanted.Store(true)
	return fault.Failed("open pool", o.config.Path, o.calls.DoInSteps("open pool", func(c *bounded.Call) error {
		stale, err := o.attempt(c, func(*bounded.Call, *Dir) error { return nil })
		if err == errStale {
			err = o.reopen(c, stale)
		}
		return err
	}))
}

// Ready returns nil while the pool can be used, and otherwise the reason; see Pool.Ready.
func (o *Opener) Ready() error {
	return fault.Failed("pool", o.config.Path,
		o.Do("check pool", func(_ *bounded.Call, d *Dir) error { return d.alive() }))
}

// Close releases the lock and closes every descriptor; see Pool.Close.
func (o *Opener) Close() error {
	o.closed.Store(true)
	if d := o.dir.Load(); d != nil {
		d.end()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = o.door.EnterAlone(nil)
		defer o.door.LeaveAlone()
		o.shut()
	}()
	for begin := time.Now(); ; {
		select {
		case <-done:
			return nil
		case <-time.After(closeCheck):
		}
		err := o.calls.Hangs()
		if err == nil && time.Since(begin) > o.config.Patience {
			err = fmt.Errorf("%w: calls are still under way", fault.ErrNotReady)
		}
		if err != nil {
			return fault.Failed("close pool", o.config.Path, err)
		}
	}
}

// closeCheck is how often Close checks whether the disk still answers.
const closeCheck = 50 * time.Millisecond

func errClosed() error { return fmt.Errorf("%w: it was closed", fault.ErrNotReady) }

// shut closes the directory. The caller is alone.
func (o *Opener) shut() {
	if d := o.dir.Load(); d != nil {
		o.dir.Store(nil)
		d.Close()
	}
}

// Do calls do with the open directory. It reopens the directory first if the path leads to another
// one. do must not call Do again. If the disk does not answer, see bounded.Calls.
func (o *Opener) Do(op string, do func(*bounded.Call, *Dir) error) error {
	return o.calls.Do(op, func(c *bounded.Call) error { return o.within(c, do) })
}

// Yield lets calls of Do go first; see bounded.Calls.
func (o *Opener) Yield(ctx context.Context, most time.Duration) error {
	return o.calls.Yield(ctx, most)
}

// DoInSteps is Do for a call that reads many volumes, each of which may take as long as a call.
func (o *Opener) DoInSteps(op string, do func(*bounded.Call, *Dir) error) error {
	return o.calls.DoInSteps(op, func(c *bounded.Call) error { return o.within(c, do) })
}

// DoInLongSteps is DoInSteps for work that may take any time while it makes progress. The context
// of do also ends when the pool is closed or reopened, which waits for do.
func (o *Opener) DoInLongSteps(
	ctx context.Context, op string, do func(context.Context, *bounded.Call, *Dir) error,
) error {
	return o.calls.DoInLongSteps(op, func(c *bounded.Call) error {
		return o.within(c, func(c *bounded.Call, d *Dir) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(d.live, cancel)()
			err := do(ctx, c, d)
			if err != nil && d.live.Err() != nil {
				return fmt.Errorf("%w: it was closed or has to be reopened", fault.ErrNotReady)
			}
			return err
		})
	})
}

// WithOpen calls do with the directory as it was opened last, without checking the path. It does
// nothing while the pool is not open.
func (o *Opener) WithOpen(op string, do func(*Dir)) error {
	return o.calls.DoInSteps(op, func(c *bounded.Call) error {
		if err := o.door.Enter(c); err != nil {
			return err
		}
		defer o.door.Leave()
		if d := o.dir.Load(); d != nil {
			do(d)
		}
		return nil
	})
}

// TryWithOpen is WithOpen within another call. It does nothing if it would have to wait.
func (o *Opener) TryWithOpen(do func(*Dir)) {
	if !o.door.TryEnter() {
		return
	}
	defer o.door.Leave()
	if d := o.dir.Load(); d != nil {
		do(d)
	}
}

func (o *Opener) within(c *bounded.Call, do func(*bounded.Call, *Dir) error) error {
	stale, err := o.attempt(c, do)
	if err != errStale {
		return err
	}
	if err := o.reopen(c, stale); err != nil {
		return asNotReady(err)
	}
	if _, err = o.attempt(c, do); err == errStale {
		return fmt.Errorf("%w: the path keeps leading to other directories", fault.ErrNotReady)
	}
	return err
}

// errStale means that the pool must be reopened first.
var errStale = errors.New("stale")

// attempt calls do if the directory is good. Otherwise it returns the directory and errStale.
func (o *Opener) attempt(c *bounded.Call, do func(*bounded.Call, *Dir) error) (*Dir, error) {
	if err := o.door.Enter(c); err != nil {
		return nil, err
	}
	defer o.door.Leave()
	d := o.dir.Load()
	switch {
	case o.closed.Load():
		return nil, errClosed()
	case !o.wanted.Load():
		return nil, fault.ErrNotOpened
	case d == nil || d.verify(o.config.Path) != nil:
		return d, errStale
	}
	if err := d.whole(); err != nil {
		return nil, err
	}
	if err := d.Writable(); err != nil {
		return nil, err
	}
	if err := c.StillWanted(); err != nil {
		return nil, err
	}
	return d, d.Explain(do(c, d))
}

// reopen replaces a stale directory, unless another call has done so meanwhile.
func (o *Opener) reopen(c *bounded.Call, stale *Dir) error {
	if stale != nil {
		stale.end()
	}
	if err := o.door.EnterAlone(c); err != nil {
		return err
	}
	defer o.door.LeaveAlone()
	if o.closed.Load() {
		return errClosed()
	}
	if d := o.dir.Load(); d != nil && d != stale {
		return nil
	}
	o.leave(stale)
	o.shut()
	d := newDir()
	defer func() {
		if o.dir.Load() != d {
			d.Close()
		}
	}()
	err := d.Explain(o.open(c, d))
	if err == nil {
		o.dir.Store(d)
	}
	return err
}

// asNotReady turns any error that keeps a pool closed into an ErrNotReady.
func asNotReady(err error) error {
	switch {
	case err == nil, errors.Is(err, fault.ErrNotReady):
		return err
	case errors.Is(err, fault.ErrInvalid):
		// The path may become right; the request is not wrong.
		return fmt.Errorf("%w: %v", fault.ErrNotReady, err) //nolint:errorlint // it must not be an ErrInvalid
	}
	return fmt.Errorf("%w: %w", fault.ErrNotReady, err)
}
