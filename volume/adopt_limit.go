package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/limit"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// LimitAdopted holds an adopted volume to its promise from now on. It does
// nothing where it is.
//
// That means visiting each of its files, at Config.PurgeRate, and so is done
// while the volume is not published; whoever pins, expands or deletes it
// meanwhile stops the work and waits for moments. The next call goes on, also
// after a restart. Calls wait for each other. Symbolic links and special files
// cannot be given an ID and stay as they are.
//
// The caller makes sure that no pod uses the volume in another way: those of a
// hostPath PV are not seen. The error is ErrInUse where it is published, or the
// work was stopped; ErrNoLimits where the filesystem can do no such thing;
// ErrOverfull where the volume holds more than its promise, and so could write
// nothing any more; ErrConflict where files in it have the ID of something
// else; ErrInvalid where nothing was promised for it or no limit is wanted.
// With an error it has no limit, as before.
func (p *Pool) LimitAdopted(ctx context.Context, name string) (Volume, error) {
	const op = "limit adopted volume"
	var v Volume
	err := p.checkName(name)
	if err == nil {
		err = p.long(ctx, op, func(ctx context.Context, h *handle) error {
			ctx, end, err := p.adopting.begin(ctx, h.call, name)
			if err != nil {
				return err
			}
			defer end()
			err = p.limitAdopted(ctx, h, name)
			if errors.Is(context.Cause(ctx), errWanted) && !errors.Is(err, errWanted) && err != nil {
				err = errWanted
			}
			if err == nil {
				r, _ := p.record(name)
				v = p.volume(h, r, false)
			}
			return err
		})
	}
	if err != nil {
		return Volume{}, fault.Failed(op, name, err)
	}
	return v, nil
}

// errWanted stops the work on a volume that somebody wants.
var errWanted = fmt.Errorf("%w: it was asked for while its files were visited; the rest is done once it is not published", ErrInUse)

// adopting is the work on one adopted volume.
type adopting struct {
	one bounded.Turns // one at a time

	mu     sync.Mutex // guards what follows
	name   string
	cancel context.CancelCauseFunc
}

// begin waits for its turn, and returns a context that stop ends.
func (a *adopting) begin(ctx context.Context, c *bounded.Call, name string) (_ context.Context, end func(), err error) {
	give, err := a.one.Take(c)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.name, a.cancel = name, cancel
	return ctx, func() {
		a.mu.Lock()
		a.name, a.cancel = "", nil
		a.mu.Unlock()
		cancel(nil)
		give()
	}, nil
}

// stop ends the work on the volume, if there is any.
func (a *adopting) stop(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil && a.name == name {
		a.cancel(errWanted)
	}
}

// limitAdopted gives all inodes the ID while others may have the volume, and
// then, while nobody has, makes sure of it, makes the directories hand it down
// and sets the limit; see limit.Adopter for why in this order.
func (p *Pool) limitAdopted(ctx context.Context, h *handle, name string) error {
	work := &marking{pool: p}
	done := false
	err := p.hold(h, name, func() (err error) {
		done, err = p.announce(h, name, work)
		return err
	})
	if done || err != nil {
		return err
	}
	if err := work.visit(ctx, h, p.pace(), false); err != nil {
		return err
	}
	return p.hold(h, name, func() error { return p.switchOver(ctx, h, work) })
}

// announce records the ID that the inodes get, and gives it to the first. It
// reports whether there is nothing to do.
func (p *Pool) announce(h *handle, name string, work *marking) (done bool, err error) {
	r, ok := p.record(name)
	switch {
	case !ok || !inPlace(r):
		return false, ErrNotFound
	case r.LimitID != 0:
		return true, nil
	case !r.Adopted || r.Limit == LimitNone:
		return false, fmt.Errorf("%w: it was not adopted, or no limit is asked for", ErrInvalid)
	case r.Bytes == 0:
		return false, fmt.Errorf("%w: nobody said how big it is, so there is nothing to hold it to", ErrInvalid)
	}
	if work.by, err = h.adopter(); err != nil {
		return false, err
	}
	if err := h.unused(name); err != nil {
		return false, err
	}
	dir, err := tree.OpenDir(h.base, name)
	if err != nil {
		return false, fault.Path("open", name, err)
	}
	defer unix.Close(dir)
	for range 3 {
		if r.PendingID == 0 {
			if r.PendingID, err = work.by.Free(dir); err != nil {
				return false, err
			}
			p.step("adopt.pending")
			if err := p.put(h, r); err != nil {
				return false, err
			}
		}
		work.record = r
		p.step("adopt.claim")
		err = work.by.Claim(dir, r.PendingID)
		if !errors.Is(err, limit.ErrTaken) {
			break
		}
		r.PendingID = 0
	}
	if errors.Is(err, limit.ErrForeign) {
		err = fmt.Errorf("%w: its directory: %w; if nothing else needs that, take it away: chattr -R -P -p 0 %s/%s", ErrConflict, err, p.path, name)
	}
	if err != nil {
		return false, err
	}
	return false, p.fits(work, dir)
}

// adopter returns what can limit a directory with content.
func (h *handle) adopter() (limit.Adopter, error) {
	if h.support.Method == limit.MethodNone {
		return nil, fmt.Errorf("%w: %s", ErrNoLimits, h.support.Reason)
	}
	by, ok := h.limits.(limit.Adopter)
	if !ok {
		return nil, fmt.Errorf("%w: on btrfs a directory that was there before cannot be limited, because it is no subvolume; "+
			"copy its data into the volume of a new claim", ErrNoLimits)
	}
	return by, nil
}

// fits returns ErrOverfull where what the kernel counts so far is too much.
func (p *Pool) fits(work *marking, dir int) error {
	u, err := work.by.UsageOf(dir, work.record.PendingID)
	if err == nil && u.Bytes > work.record.Bytes {
		err = fmt.Errorf("%w: %d bytes are in it and %d were asked for, so that nothing more could be written; "+
			"ask for more in its claim (spec.resources.requests.storage), or remove files", ErrOverfull, u.Bytes, work.record.Bytes)
	}
	return err
}

// rounds bounds how often a tree is visited until everything in it is as it
// has to be.
const rounds = 5

// switchOver ends the work. The caller holds the volume.
func (p *Pool) switchOver(ctx context.Context, h *handle, work *marking) (err error) {
	name := work.record.Name
	r, ok := p.record(name)
	if !ok || r.PendingID != work.record.PendingID {
		return fmt.Errorf("%w: it went while its files were visited", ErrNotFound)
	}
	work.record = r
	if err := h.unused(name); err != nil {
		return err
	}
	dir, err := tree.OpenDir(h.base, name)
	if err != nil {
		return fault.Path("open", name, err)
	}
	defer unix.Close(dir)
	// What was made while others had it.
	if err := work.visit(ctx, h, nil, false); err != nil {
		return err
	}
	if err := p.fits(work, dir); err != nil {
		return err
	}
	r.Switching = true
	p.step("adopt.switch")
	if err := p.put(h, r); err != nil {
		return err
	}
	if err = p.switched(ctx, h, work); err == nil {
		err = p.fits(work, dir)
	}
	if err != nil {
		return errors.Join(err, p.switchBack(h, r))
	}
	// Recorded before it is set, as when a volume grows: a start sets it.
	r.LimitID, r.PendingID, r.Switching = r.PendingID, 0, false
	p.step("adopt.limit")
	if err := p.put(h, r); err != nil {
		return err
	}
	if _, err := p.matchedLimit(h, r); err != nil {
		return err
	}
	p.meterOne(h, r)
	return nil
}

// switched makes all directories hand down the ID, until a whole visit finds
// nothing that lacks anything.
func (p *Pool) switched(ctx context.Context, h *handle, work *marking) error {
	for range rounds {
		if err := work.visit(ctx, h, nil, true); err != nil {
			return err
		}
		if work.changed == 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: somebody keeps writing into it, though it is not published", ErrInUse)
}

// switchBack makes no directory hand down the ID any more: while only some do,
// no pod may have the volume. Those below first, so that what a crash leaves is
// found again.
func (p *Pool) switchBack(h *handle, r Record) error {
	err := tree.Walk(context.Background(), h.base, r.Name, h.beating(nil), tree.Visitor{Leave: func(dir int) error {
		return limit.StopHandingDown(dir, func() { p.step("adopt.back") })
	}})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("take back the half-made limit: %w", err)
	}
	r.Switching = false
	p.step("adopt.undone")
	return p.put(h, r)
}
