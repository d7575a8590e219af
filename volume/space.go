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
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/trash"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Space returns what the pool has in all and available. Create refuses by the same numbers.
func (p *Pool) Space() (space.Space, error) {
	return resultOf(p.withPool, "measure pool", p.path, func(c *call) (space.Space, error) {
		st, err := p.meter(c)
		if err != nil {
			return space.Space{}, err
		}
		s := p.filesystems.Load().Space(c.Filesystem, p.ledger, st)
		// Kubelets check much more often than the trash is purged.
		bytes, inodes := s.Lacks(st)
		kept, volumes := p.kept.Bytes()
		if inodes && volumes > 0 || min(bytes, kept) > p.coming(c.Filesystem, freeBytes(st)) {
			p.room.Hurry()
		}
		return s, nil
	})
}

// allocate allocates bytes to a volume whose record does not have them yet. It returns a
// fault.SpaceError if the new ones of them, wanted, are not available. release gives back what
// no record took over.
//
// If kept volumes have the missing bytes, the next purges remove some, but not the one with the ID
// returning, which gets the allocation; see fault.SpaceError.
func (p *Pool) allocate(c *call, r space.Request, returning string) (release func(), err error) {
	st, err := p.meter(c)
	if err != nil {
		return nil, err
	}
	if release, err = p.filesystems.Load().Allocate(c.Filesystem, p.ledger, st, r); err == nil {
		p.room.Served(r.Name)
	}
	var full *fault.SpaceError
	if errors.As(err, &full) && full.Wanted <= full.Available+full.Kept {
		full.MakingRoom = p.room.Ask(r.Name, trash.Need{Bytes: r.Wanted - r.Own, Except: returning}, freeBytes(st))
	}
	return release, err
}

// meter reads the counters of all pools on the filesystem, and then the figures of the
// filesystem: data that is written between the two is missing from both.
func (p *Pool) meter(c *call) (*unix.Statfs_t, error) {
	if p.room.Settles() {
		// A reading from before free space rose is in doubt, and the request that waits for the room would
		// be refused.
		p.ledger.ReadAgain()
	}
	p.filesystems.Load().Meter(c.Call, c.Filesystem, p.ledger, p.counters(c, nil))
	st, err := p.statfs(c)
	if err == nil {
		kept, _ := p.kept.Bytes()
		p.ledger.SetKept(p.room.Offered(kept, freeBytes(st)))
	}
	return st, err
}

// statfs returns the figures of the filesystem.
func (p *Pool) statfs(c *call) (*unix.Statfs_t, error) {
	st, err := c.Statfs()
	if err == nil && p.config.Figures != nil {
		p.config.Figures(st)
	}
	return st, err
}

func freeBytes(st *unix.Statfs_t) int64 { return space.Blocks(st.Bavail, st.Frsize) }

// member is the pool as the other pools on its filesystem see it.
type member struct{ p *Pool }

func (m member) Ledger() *space.Ledger { return m.p.ledger }

// Read implements space.Member. It does nothing if it had to wait.
func (m member) Read(c *bounded.Call, before []space.Reading) (all []space.Reading) {
	all = before
	m.p.dir.TryWithOpen(func(d *pooldir.Dir) { all = m.p.counters(m.p.newCall(c, d), all) })
	return all
}

// readCounters reads what the volumes with quotas use.
func (p *Pool) readCounters(c *call) { p.filesystems.Load().Read(c.Filesystem, p.counters(c, nil)) }

// counters adds a reading of the pool to those begun before, unless the last one is recent.
func (p *Pool) counters(c *call, before []space.Reading) []space.Reading {
	if c.quotas.Support.Method == quota.MethodNone {
		return before
	}
	return p.ledger.ReadCounters(before,
		func() (int64, error) {
			st, err := p.statfs(c)
			if err != nil {
				return 0, err
			}
			return p.filesystems.Load().Risen(c.Filesystem, st), nil
		},
		func(r record.Record) (int64, bool) {
			c.Progress()
			return p.readCounter(c, r)
		})
}

// readCounter forgets the last count of a volume if the kernel gives none.
func (p *Pool) readCounter(c *call, r record.Record) (written int64, ok bool) {
	u, err := c.quotas.Meter(r)
	if err != nil {
		p.ledger.Uncount(r)
		return 0, false
	}
	return u.Bytes - u.Unwritten, p.ledger.Count(r, u.Bytes)
}

// Usages returns what the volumes that are in place use, by name. Counters of the kernel
// may be a second old; a volume without one has the result of the last Measure.
func (p *Pool) Usages() ([]space.Usage, error) {
	return resultOf(p.withPool, "list the usage of volumes", p.path, func(c *call) (all []space.Usage, err error) {
		p.readCounters(c)
		for _, r := range p.records.InPlace() {
			all = append(all, p.ledger.Usage(r))
		}
		return all, nil
	})
}

// QuotaUsage returns what the kernel counts for a volume with a quota, and the quota in
// force. Data that was removed a moment ago may still count.
//
// The error is ErrNotFound if there is no volume, ErrNoQuotas if it has no quota.
func (p *Pool) QuotaUsage(name string) (quota.Usage, error) {
	return resultOf(p.withName, "read the usage of volume", name, func(c *call) (quota.Usage, error) {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return quota.Usage{}, ErrNotFound
		}
		u, err := c.quotas.Usage(r)
		switch {
		case errors.Is(err, quota.ErrNone), errors.Is(err, quota.ErrUnlimited), errors.Is(err, quota.ErrForeign):
			err = fmt.Errorf("%w: %w", ErrNoQuotas, err)
		case errors.Is(err, unix.ENOENT):
			err = fmt.Errorf("%w: its record is there and its directory is not", ErrNotFound)
		}
		return u, err
	})
}

// Measure rests this long after so many files: then it takes a fraction of one core and
// leaves the disk to the tenants.
const (
	measureRest  = time.Millisecond
	measureBatch = 256
)

// Measure walks every volume without a quota to learn how much it uses, and on XFS the others to learn
// how much of it their files share, which is written to the disk. It may take long;
// ctx stops it, and then nothing changes. The result holds until the next call, so callers
// measure from time to time. Space takes the lesser of the last two walks: Measure walks a
// new volume twice, and new data in any other counts from the second call on. A volume that
// cannot be walked counts as empty, and is in the joined errors.
func (p *Pool) Measure(ctx context.Context) error {
	return p.withPoolInLongSteps(ctx, "measure volumes", p.path, func(ctx context.Context, c *call) error {
		f := p.filesystems.Load()
		p.readCounters(c)
		pace, elsewhere := c.Paced(measurePace()), c.quotas.CountedElsewhere()
		walk := space.Walk{
			Filesystem: c.Filesystem, Statfs: func() (*unix.Statfs_t, error) { return p.statfs(c) },
			Size: func(ctx context.Context, name string) (tree.Size, error) {
				return tree.Measure(ctx, c.Base, name, pace, elsewhere)
			},
		}
		if c.sharesCounted() {
			walk.Shared = func(ctx context.Context, name string) (int64, error) {
				size, err := tree.Measure(ctx, c.Base, name, pace, nil)
				return size.Shared, err
			}
		}
		err := f.Measure(ctx, p.ledger, walk)
		return errors.Join(err, p.writeShared(c))
	})
}

// MeasureDue reports whether so much space became free since the last Measure that
// another would find more available. It reads no disk.
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
