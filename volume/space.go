package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Space is what a pool has and can still promise; see package space.
type Space = space.Space

// Use is what a volume takes of its promise; see package space.
type Use = space.Use

// Space returns what the pool has and can still promise. Refusals of Create
// follow the same numbers.
func (p *Pool) Space() (Space, error) {
	const op = "measure pool"
	var s Space
	err := p.enter(op, func(c *call) error {
		f := p.filesystems.Load()
		f.Meter(c.Call, c.Filesystem, p.ledger, p.counters(c, nil))
		// Later than the reading: what is written between the two is missing from both.
		st, err := c.Statfs()
		if err != nil {
			return err
		}
		s = f.Space(c.Filesystem, p.ledger, st)
		return nil
	})
	if err != nil {
		return Space{}, fault.Failed(op, p.path, err)
	}
	return s, nil
}

// reserve allocates bytes to a volume whose record does not have them yet. It
// returns a SpaceError if those of them that are new are not available. release
// takes back what no record took over.
func (p *Pool) reserve(c *call, name string, bytes, wanted int64) (release func(), err error) {
	f := p.filesystems.Load()
	f.Meter(c.Call, c.Filesystem, p.ledger, p.counters(c, nil))
	st, err := c.Statfs()
	if err != nil {
		return nil, err
	}
	return f.Allocate(c.Filesystem, p.ledger, st, name, bytes, wanted)
}

// member is the pool as the other pools on its filesystem see it.
type member struct{ p *Pool }

func (m member) Ledger() *space.Ledger { return m.p.ledger }

// Read implements pool. It does nothing if it had to wait.
func (m member) Read(c *bounded.Call, before []space.Reading) (all []space.Reading) {
	all = before
	m.p.dir.TryLook(func(d *pooldir.Dir) { all = m.p.counters(m.p.newCall(c, d), all) })
	return all
}

// meter reads what the volumes with limits use.
func (p *Pool) readCounters(c *call) { p.filesystems.Load().Read(c.Filesystem, p.counters(c, nil)) }

// counters adds a reading of the pool to those that were begun before. It does nothing
// if that was done a moment ago.
func (p *Pool) counters(c *call, before []space.Reading) []space.Reading {
	if c.quotas.Support.Method == quota.MethodNone {
		return before
	}
	return p.ledger.ReadCounters(before,
		func() (int64, error) {
			st, err := c.Statfs()
			if err != nil {
				return 0, err
			}
			return p.filesystems.Load().Risen(c.Filesystem, st), nil
		},
		func(r Record) (int64, bool) {
			c.Progress()
			return p.readCounter(c, r)
		})
}

// readCounter forgets what a volume used if the kernel does not say any more.
func (p *Pool) readCounter(c *call, r Record) (written int64, ok bool) {
	u, err := c.quotas.Meter(r)
	if err != nil {
		p.ledger.Uncount(r)
		return 0, false
	}
	return u.Bytes - u.Unwritten, p.ledger.Count(r, u.Bytes)
}

// Uses returns what the volumes that are in place use, sorted by name. It walks
// nothing: counters of the kernel may be a second old, walks as old as the last
// Measure.
func (p *Pool) Usages() ([]Use, error) {
	const op = "list what volumes use"
	var all []Use
	err := p.enter(op, func(c *call) error {
		p.readCounters(c)
		for _, r := range p.records.InPlace() {
			all = append(all, p.ledger.Use(r))
		}
		return nil
	})
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

// Usage returns what the kernel counts for a volume with a limit, and the
// limit in force. What was removed a moment ago may still be in it.
//
// The error is ErrNotFound where there is no volume, ErrNoQuotas where it has
// no limit.
func (p *Pool) QuotaUsage(name string) (quota.Usage, error) {
	const op = "read the usage of volume"
	if err := p.checkName(name); err != nil {
		return quota.Usage{}, fault.Failed(op, name, err)
	}
	var u quota.Usage
	err := p.enter(op, func(c *call) (err error) {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		u, err = c.quotas.Usage(r)
		return asNoQuota(err)
	})
	if err != nil {
		return quota.Usage{}, fault.Failed(op, name, err)
	}
	return u, nil
}

// asNoQuota is the error of this package for a directory without a limit.
func asNoQuota(err error) error {
	switch {
	case errors.Is(err, quota.ErrNone), errors.Is(err, quota.ErrUnlimited), errors.Is(err, quota.ErrForeign):
		return fmt.Errorf("%w: %w", ErrNoQuotas, err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: its record is there and its directory is not", ErrNotFound)
	}
	return err
}

// Measuring rests this long after so many files, so that it takes a fraction
// of one core and leaves the disk to the tenants.
const (
	measureRest  = time.Millisecond
	measureBatch = 256
)

// Measure walks every volume without a limit to learn how much of its promise it uses, for
// Space. It may take long; ctx stops it. What was learned of a volume holds
// until the next call, so callers run it from time to time. The lesser of two walks
// counts for Space: a volume that was never walked is walked twice, and what is new in
// any other counts from the second call on. A volume that
// cannot be walked counts nothing, and is in the joined errors. Where ctx ends, all is
// as before.
func (p *Pool) Measure(ctx context.Context) error {
	const op = "measure volumes"
	err := p.long(ctx, op, func(ctx context.Context, c *call) error {
		f := p.filesystems.Load()
		p.readCounters(c)
		pace, elsewhere := c.Paced(measurePace()), c.quotas.CountedElsewhere()
		return f.Measure(ctx, p.ledger, space.Walk{
			Filesystem: c.Filesystem, Statfs: c.Statfs,
			Size: func(ctx context.Context, name string) (tree.Size, error) {
				return tree.Measure(ctx, c.Base, name, pace, elsewhere)
			},
		})
	})
	return fault.Failed(op, p.path, err)
}

// MeasureDue reports whether free space has risen so much since the last Measure that
// the pool may have more space available than it can be sure of. It reads nothing.
func (p *Pool) MeasureDue() bool { return p.filesystems.Load().MeasureDue(p.ledger) }

func measurePace() tree.Pace {
	files := 0
	return func(ctx context.Context) error {
		if files++; files%measureBatch != 0 {
			return nil
		}
		return bounded.Sleep(ctx, measureRest)
	}
}
