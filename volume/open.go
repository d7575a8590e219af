package volume

import (
	"context"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/poolmount"
	"kubevirt.io/hostpath-provisioner/volume/volumequota"
)

// Open opens the pool: it creates the directory if only the path's last element is
// missing, takes the lock, creates an identity if there is none and none is expected, and
// recovers from a crash. It does nothing if the pool is open.
//
// The error is ErrNotReady if the pool cannot be used yet. Nothing was created then, unless
// the directory was accepted and a later step failed. Every later call tries again, so the
// caller need not. If the disk does not answer, the pool is open once it does.
func (p *Pool) Open() error { return p.dir.Open() }

// Ready returns nil while the pool can be used, and otherwise an ErrNotReady with the
// reason. It checks the disk, unless that does not answer, and reopens the pool if the path
// leads to its directory again.
func (p *Pool) Ready() error { return p.dir.Ready() }

// Close releases the lock and every descriptor. It waits for calls under way; Purge and
// Measure stop early, and so do copies that are made in the pool or of its volumes. Afterwards every
// call returns ErrNotReady: a closed pool stays closed. It changes nothing on the disk.
//
// The error is ErrNotReady if the disk does not answer a call. That call may still write,
// so the lock is kept until it returns.
func (p *Pool) Close() error {
	if err := p.dir.Close(); err != nil {
		_ = p.clones.endReaders(0) // it has waited
		return err
	}
	return fault.Failed("close pool", p.path, p.clones.endReaders(p.config.Patience))
}

// everUsed reports whether this process knows of anything in the pool.
func (p *Pool) everUsed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ledger.IsEmpty() || len(p.notes) > 0
}

func (p *Pool) dirConfig() pooldir.Config {
	expected := p.config.Expected
	if expected == nil {
		expected = func() pooldir.Expected { return pooldir.Expected{} }
	}
	return pooldir.Config{
		Where: p.title(), Path: p.path, Mount: p.config.Mount, Mounted: p.config.Mounted, Label: p.config.Label,
		Owned:  func(dir string) error { return poolmount.CheckOwner(dir, p.config.Name) },
		Inner:  p.config.Inner,
		Holder: p.config.Holder, Patience: p.config.Patience, NotOffered: p.config.NotOffered,
		Selected: p.config.Selected,
		Expected: expected, Step: p.config.Step,
		Prepare: p.prepare, Twin: p.twin, Used: p.everUsed, Opened: p.ledger.SetFilesystem,
	}
}

// twin returns the title of another pool for whose directory same returns true, or "".
func (p *Pool) twin(same func(*pooldir.Opener) bool) string {
	for _, other := range p.pools() {
		if other != p && same(other.dir) {
			return other.title()
		}
	}
	return ""
}

// prepare probes which quotas the filesystem enforces, and recovers.
func (p *Pool) prepare(c *bounded.Call, d *pooldir.Dir) error {
	quotas, notes, err := p.quotas.Open(d)
	if err != nil {
		return err
	}
	p.openQuotas = quotas
	return p.recoverAll(p.newCall(c, d), notes)
}

type call struct {
	*bounded.Call
	*pooldir.Dir
	quotas *volumequota.Dir
}

func (p *Pool) newCall(c *bounded.Call, d *pooldir.Dir) *call { return &call{c, d, p.openQuotas} }

// withPool calls do with the open pool; see pooldir.Opener.Do.
func (p *Pool) withPool(op, name string, do func(*call) error) error {
	return fault.Failed(op, name, p.dir.Do(op, p.inDir(do)))
}

// withPoolInSteps is withPool for a call that visits many volumes; see pooldir.Opener.DoInSteps.
func (p *Pool) withPoolInSteps(op, name string, do func(*call) error) error {
	return fault.Failed(op, name, p.dir.DoInSteps(op, p.inDir(do)))
}

// withPoolInLongSteps is withPoolInSteps for work that takes as long as it makes progress; see
// pooldir.Opener.DoInLongSteps.
func (p *Pool) withPoolInLongSteps(ctx context.Context, op, name string, do func(context.Context, *call) error) error {
	return fault.Failed(op, name, p.dir.DoInLongSteps(ctx, op,
		func(ctx context.Context, c *bounded.Call, d *pooldir.Dir) error { return do(ctx, p.newCall(c, d)) }))
}

func (p *Pool) inDir(do func(*call) error) func(*bounded.Call, *pooldir.Dir) error {
	return func(c *bounded.Call, d *pooldir.Dir) error { return do(p.newCall(c, d)) }
}

// withName is withPool for the name of a volume. It does not lock the volume.
func (p *Pool) withName(op, name string, do func(*call) error) error {
	if err := p.checkName(name); err != nil {
		return fault.Failed(op, name, err)
	}
	return p.withPool(op, name, do)
}

// withVolume is withName while no other call works on the volume, after its recovery. The error
// is ErrSetAside if its deletion was begun and not finished. See bounded.Calls for calls that
// the disk does not answer.
func (p *Pool) withVolume(op, name string, do func(*call) error) error {
	return p.withAnyVolume(op, name, func(c *call) error {
		if r, ok := p.records.Get(name); ok && r.InTrash() {
			return ErrSetAside
		}
		return do(c)
	})
}

// withAnyVolume is withVolume, also for a volume that is set aside.
func (p *Pool) withAnyVolume(op, name string, do func(*call) error) error {
	return p.withName(op, name, func(c *call) error {
		unlock, err := p.names.Lock(c.Call, name)
		if err != nil {
			return err
		}
		defer unlock()
		if err := p.records.Damage(name); err != nil {
			return err
		}
		if err := p.clones.running(name); err != nil {
			return err
		}
		if err := p.recover(c, name); err != nil {
			return err
		}
		if err := c.StillWanted(); err != nil {
			return err
		}
		return do(c)
	})
}

// resultOf returns the result of do, which it passes to one of the functions above. With an
// error it returns the zero value: do may be under way still, and then owns its variables.
func resultOf[T any](with func(op, name string, do func(*call) error) error, op, name string,
	do func(*call) (T, error)) (T, error) {
	var result, none T
	err := with(op, name, func(c *call) (err error) {
		result, err = do(c)
		return err
	})
	if err != nil {
		return none, err
	}
	return result, nil
}

// begin announces the first change of a call to the disk. It returns an error if the caller has
// left, because the caller then has an error by which nothing was done: reads may have taken long.
func (p *Pool) begin(c *call, name string) error {
	if err := c.StillWanted(); err != nil {
		return err
	}
	p.step(name)
	return nil
}

// step announces a change to the disk.
func (p *Pool) step(name string) { p.config.Step(name) }

// steps announces the parts of a change: "record" becomes "record.write".
func (p *Pool) steps(of string) func(part string) {
	return func(part string) { p.step(of + "." + part) }
}
