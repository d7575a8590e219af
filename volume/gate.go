package volume

import (
	"errors"
	"fmt"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Open takes the pool into use: it makes the directory if only the path's last
// element is missing, takes the lock, founds an identity where there is none
// and nobody expects one, and finishes what a crash interrupted. An open pool
// is left as it is.
//
// Where the pool cannot be used yet the error is ErrNotReady. Nothing was
// created then, unless the directory was accepted and a later step failed; and
// every following call tries again, so the caller need not. Where the disk does
// not answer, the pool is open once it does.
func (p *Pool) Open() error {
	p.wanted.Store(true)
	return fault.Failed("open pool", p.path, p.under.DoInSteps("open pool", func(c *bounded.Call) error {
		stale, err := p.attempt(c, func(*handle) error { return nil })
		if err == errStale {
			err = p.reopen(c, stale)
		}
		return err
	}))
}

// Ready returns nil while the pool can be used, and otherwise why it cannot,
// an ErrNotReady. It looks at the disk, unless that does not answer, and opens
// the pool anew if the path leads to it again.
func (p *Pool) Ready() error {
	return fault.Failed("pool", p.path, p.enter("look at pool", (*handle).alive))
}

// Close gives up the lock and every descriptor. It waits for calls under way;
// Purge and Measure stop early. After it every call returns ErrNotReady. It
// changes nothing on disk. A closed pool stays closed.
//
// The error is ErrNotReady where a call is under way that the disk does not
// answer: it may still write, so the lock is kept until it returns.
func (p *Pool) Close() error {
	p.closed.Store(true)
	if h := p.handle.Load(); h != nil {
		h.end()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.gate.EnterAlone(nil)
		defer p.gate.LeaveAlone()
		p.shut()
	}()
	for begin := time.Now(); ; {
		select {
		case <-done:
			return nil
		case <-time.After(closeLook):
		}
		err := p.under.Hangs()
		if err == nil && time.Since(begin) > p.config.Patience {
			err = fmt.Errorf("%w: calls are still under way", ErrNotReady)
		}
		if err != nil {
			return fault.Failed("close pool", p.path, err)
		}
	}
}

// closeLook is how often Close looks whether the disk still answers.
const closeLook = 50 * time.Millisecond

func errClosed() error { return fmt.Errorf("%w: it was closed", ErrNotReady) }

// shut closes the handle. The caller is alone.
func (p *Pool) shut() {
	if h := p.handle.Load(); h != nil {
		p.handle.Store(nil)
		h.close()
	}
}

// enter calls do with the open pool, reopening it first if the path leads
// elsewhere by now. do must not enter again. See bounded.Calls for what becomes of do
// where the disk does not answer.
func (p *Pool) enter(op string, do func(*handle) error) error {
	return p.under.Do(op, func(c *bounded.Call) error { return p.within(c, do) })
}

// visit is enter for what looks at many volumes: only a look that takes long is
// long.
func (p *Pool) visit(op string, do func(*handle) error) error {
	return p.under.DoInSteps(op, func(c *bounded.Call) error { return p.within(c, do) })
}

func (p *Pool) within(c *bounded.Call, do func(*handle) error) error {
	stale, err := p.attempt(c, do)
	if err != errStale {
		return err
	}
	if err := p.reopen(c, stale); err != nil {
		return asNotReady(err)
	}
	if _, err = p.attempt(c, do); err == errStale {
		return fmt.Errorf("%w: the path keeps leading elsewhere", ErrNotReady)
	}
	return err
}

// errStale says that the pool has to be opened (anew) first.
var errStale = errors.New("stale")

// attempt calls do if the handle is good, and returns errStale with the
// handle if not.
func (p *Pool) attempt(c *bounded.Call, do func(*handle) error) (*handle, error) {
	if err := p.gate.Enter(c); err != nil {
		return nil, err
	}
	defer p.gate.Leave()
	h := p.handle.Load()
	switch {
	case p.closed.Load():
		return nil, errClosed()
	case !p.wanted.Load():
		return nil, ErrNotOpened
	case h == nil || h.verify(p.path) != nil:
		return h, errStale
	}
	if err := h.whole(); err != nil {
		return nil, err
	}
	if err := h.writable(); err != nil {
		return nil, err
	}
	if err := c.StillWanted(); err != nil {
		return nil, err
	}
	return h, h.judge(do(h.of(c)))
}

// reopen replaces a stale handle, unless another call has done so meanwhile.
func (p *Pool) reopen(c *bounded.Call, stale *handle) error {
	if stale != nil {
		stale.end()
	}
	if err := p.gate.EnterAlone(c); err != nil {
		return err
	}
	defer p.gate.LeaveAlone()
	if p.closed.Load() {
		return errClosed()
	}
	if h := p.handle.Load(); h != nil && h != stale {
		return nil
	}
	p.leave(stale)
	p.shut()
	h := newHandle()
	h.call = c
	defer func() {
		if p.handle.Load() != h {
			h.close()
		}
	}()
	err := h.judge(p.open(h))
	if h.call = nil; err == nil {
		p.handle.Store(h)
	}
	return err
}

// asNotReady makes whatever keeps a pool closed an ErrNotReady.
func asNotReady(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNotReady):
		return err
	case errors.Is(err, ErrInvalid):
		// What is wrong with the path now may pass; the request is not wrong.
		return fmt.Errorf("%w: %v", ErrNotReady, err) //nolint:errorlint // so that it is no ErrInvalid any more
	}
	return fmt.Errorf("%w: %w", ErrNotReady, err)
}
