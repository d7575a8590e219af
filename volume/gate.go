package volume

import (
	"errors"
	"fmt"
)

// Open takes the pool into use: it makes the directory if only the path's last
// element is missing, takes the lock, founds an identity where there is none
// and nobody expects one, and finishes what a crash interrupted. An open pool
// is left as it is.
//
// Where the pool cannot be used yet the error is ErrNotReady. Nothing was
// created then, unless the directory was accepted and a later step failed; and
// every following call tries again, so the caller need not.
func (p *Pool) Open() error {
	p.want()
	stale, err := p.attempt(func(*handle) error { return nil })
	if err == errStale {
		err = p.reopen(stale)
	}
	return failed("open pool", p.path, err)
}

// want lets calls open the pool from now on. It takes the gate for writing
// only once: a purge may hold it for reading for hours.
func (p *Pool) want() {
	p.gate.RLock()
	wanted := p.wanted
	p.gate.RUnlock()
	if !wanted {
		p.gate.Lock()
		defer p.gate.Unlock()
		p.wanted = true
	}
}

// Ready returns nil while the pool can be used, and otherwise why it cannot,
// an ErrNotReady. It looks at the disk, and opens the pool anew if the path
// leads to it again.
func (p *Pool) Ready() error {
	return failed("pool", p.path, p.enter((*handle).alive))
}

// Close gives up the lock and every descriptor. It waits for calls under way;
// Purge and Measure stop early. After it every call returns ErrNotReady. It
// changes nothing on disk. A closed pool stays closed.
func (p *Pool) Close() error {
	p.gate.RLock()
	if p.handle != nil {
		p.handle.end()
	}
	p.gate.RUnlock()
	p.gate.Lock()
	defer p.gate.Unlock()
	p.closed = true
	p.shut()
	return nil
}

func errClosed() error { return fmt.Errorf("%w: it was closed", ErrNotReady) }

// shut closes the handle. The caller holds gate for writing.
func (p *Pool) shut() {
	if p.handle != nil {
		p.handle.close()
		p.handle = nil
	}
}

// enter calls do with the open pool, reopening it first if the path leads
// elsewhere by now. do must not enter again.
func (p *Pool) enter(do func(*handle) error) error {
	stale, err := p.attempt(do)
	if err != errStale {
		return err
	}
	if err := p.reopen(stale); err != nil {
		return asNotReady(err)
	}
	if _, err = p.attempt(do); err == errStale {
		return fmt.Errorf("%w: the path keeps leading elsewhere", ErrNotReady)
	}
	return err
}

// errStale says that the pool has to be opened (anew) first.
var errStale = errors.New("stale")

// attempt calls do if the handle is good, and returns errStale with the
// handle if not.
func (p *Pool) attempt(do func(*handle) error) (*handle, error) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	switch {
	case p.closed:
		return nil, errClosed()
	case !p.wanted:
		return nil, fmt.Errorf("%w: it was not opened", ErrNotReady)
	case p.handle == nil || p.handle.verify(p.path) != nil:
		return p.handle, errStale
	}
	if err := p.handle.whole(); err != nil {
		return nil, err
	}
	if err := p.handle.writable(); err != nil {
		return nil, err
	}
	return p.handle, do(p.handle)
}

// reopen replaces a stale handle, unless another call has done so meanwhile.
func (p *Pool) reopen(stale *handle) error {
	if stale != nil {
		stale.end()
	}
	p.gate.Lock()
	defer p.gate.Unlock()
	if p.closed {
		return errClosed()
	}
	if p.handle != nil && p.handle != stale {
		return nil
	}
	p.shut()
	p.handle = newHandle()
	err := p.open(p.handle)
	if err != nil {
		p.shut()
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
