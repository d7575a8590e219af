package volume

import (
	"context"
	"fmt"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/enforce"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
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
func (p *Pool) Open() error { return p.dir.Open() }

// Ready returns nil while the pool can be used, and otherwise why it cannot,
// an ErrNotReady. It looks at the disk, unless that does not answer, and opens
// the pool anew if the path leads to it again.
func (p *Pool) Ready() error { return p.dir.Ready() }

// Close gives up the lock and every descriptor. It waits for calls under way;
// Purge and Measure stop early. After it every call returns ErrNotReady. It
// changes nothing on disk. A closed pool stays closed.
//
// The error is ErrNotReady where a call is under way that the disk does not
// answer: it may still write, so the lock is kept until it returns.
func (p *Pool) Close() error { return p.dir.Close() }

func (p *Pool) dirConfig() pooldir.Config {
	expected := p.config.Expected
	if expected == nil {
		expected = func() Expected { return Expected{} }
	}
	return pooldir.Config{
		Where: p.title(), Path: p.path, Mount: p.config.Mount, Label: p.config.Label, Inner: p.config.Inner,
		Holder: p.config.Holder, Patience: p.config.Patience, NotOffered: p.config.NotOffered,
		Expected: expected, Step: p.config.Step,
		Prepare: p.prepare, Used: p.everUsed, Opened: p.ledger.SetFilesystem,
	}
}

// handle is an open pool as one call uses it: its directory, and the quotas there.
type call struct {
	*bounded.Call
	*pooldir.Dir
	quotas *enforce.Dir
}

func (p *Pool) newCall(c *bounded.Call, d *pooldir.Dir) *call { return &call{c, d, p.enforcing} }

// prepare probes which quotas the filesystem enforces, and recovers.
func (p *Pool) prepare(c *bounded.Call, d *pooldir.Dir) error {
	quotas, notes, err := p.quotas.Open(d)
	if err != nil {
		return err
	}
	p.enforcing = quotas
	return p.recoverAll(p.newCall(c, d), notes)
}

// enter calls do with the open pool; see pooldir.Opener.Do.
func (p *Pool) enter(op string, do func(*call) error) error {
	return p.dir.Do(op, func(c *bounded.Call, d *pooldir.Dir) error { return do(p.newCall(c, d)) })
}

// visit is enter for what looks at many volumes; see pooldir.Opener.DoInSteps.
func (p *Pool) visit(op string, do func(*call) error) error {
	return p.dir.DoInSteps(op, func(c *bounded.Call, d *pooldir.Dir) error { return do(p.newCall(c, d)) })
}

// long is visit for work that takes as long as it makes progress; see
// pooldir.Opener.DoInLongSteps.
func (p *Pool) long(ctx context.Context, op string, do func(context.Context, *call) error) error {
	return p.dir.DoInLongSteps(ctx, op, func(ctx context.Context, c *bounded.Call, d *pooldir.Dir) error {
		return do(ctx, p.newCall(c, d))
	})
}

// on calls do for one volume: the name is right, the pool is open, nobody else
// works on the volume, and nothing of it is half done. See bounded.Calls for what becomes of
// do where the disk does not answer.
func (p *Pool) on(op, name string, do func(*call) error) error {
	err := p.checkName(name)
	if err == nil {
		err = p.enter(op, func(c *call) error {
			return p.locked(c, name, func() error { return do(c) })
		})
	}
	return fault.Failed(op, name, err)
}

// locked calls do while nobody else works on the volume, and nothing of it is
// half done.
func (p *Pool) locked(c *call, name string, do func() error) error {
	unlock, err := p.names.Lock(c.Call, name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.records.Damage(name); err != nil {
		return err
	}
	if err := p.recover(c, name); err != nil {
		return err
	}
	if err := c.StillWanted(); err != nil {
		return err
	}
	return do()
}

// checkName refuses what can never be a volume of this pool.
func (p *Pool) checkName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if slices.Contains(p.config.Inner, name) {
		return fmt.Errorf("%w: the name %q is that of a pool inside this one", ErrInvalid, name)
	}
	return nil
}

// step announces a change to the disk.
func (p *Pool) step(name string) { p.config.Step(name) }

// steps announces the parts of a change: "record" becomes "record.write".
func (p *Pool) steps(of string) func(part string) {
	return func(part string) { p.step(of + "." + part) }
}
