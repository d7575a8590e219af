package volume

import (
	"context"
	"errors"
	"slices"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/trash"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// dropDue moves the kept volumes to the trash whose time is over, and those whose room is needed: for a
// request that found too few bytes, or because the filesystem has less than volumes have allocated,
// less than a tenth free, or too few inodes.
func (p *Pool) dropDue(c *call) error {
	if p.kept.Changed() {
		p.step("kept.flush") // the deletions that moved them did not
		if err := file.Flush(c.Records, c.Kept()); err != nil {
			p.kept.Unflushed()
			return err
		}
	}
	all := p.Kept()
	if len(all) == 0 {
		p.room.Asked() // in vain
		return nil
	}
	st, err := p.meter(c)
	if err != nil {
		return err
	}
	free := freeBytes(st)
	var errs []error
	drop := func(k Kept) {
		c.Progress()
		if err := p.dropOne(c, k.ID, free); err != nil && !errors.Is(err, ErrNotFound) { // another call has it
			errs = append(errs, fault.Failed("remove kept volume", k.ID, err))
		}
	}
	for _, k := range all {
		if k.Why == "" && k.Age >= k.For {
			drop(k)
		}
	}
	if p.kept.Untried() { // this purge measures it, and continues here
		return errors.Join(errs...)
	}
	asked, except := p.room.Asked()
	left := slices.DeleteFunc(all, func(k Kept) bool { return k.Why != "" || k.Age >= k.For || except[k.ID] })
	s := p.filesystems.Load().Space(c.Filesystem, p.ledger, st)
	need, inodes := s.Lacks(st)
	if asked > 0 {
		need = max(need, s.Missing(asked))
	}
	for _, k := range trash.Victims(left, need-p.coming(c.Filesystem, free), inodes) {
		drop(k)
	}
	return errors.Join(errs...)
}

// coming returns how many bytes of a filesystem become free by the removals of all its pools.
func (p *Pool) coming(filesystem string, free int64) (sum int64) {
	for _, other := range p.pools() {
		if other == p || other.ledger.On(filesystem) {
			sum += other.room.Coming(free)
		}
	}
	return sum
}

// measureFor is for how long a purge measures before it continues with the trash.
const measureFor = time.Second

// measureKept measures how many bytes of kept volumes become free for sure, one after the other, until
// measureFor is over. It reports whether it measured any.
func (p *Pool) measureKept(ctx context.Context, c *call) (measured bool) {
	for begin := time.Now(); time.Since(begin) < measureFor; measured = true {
		k, ok := p.kept.Unmeasured()
		if !ok || ctx.Err() != nil {
			break
		}
		size, err := tree.Measure(ctx, c.Kept(), k.ID, c.Paced(measurePace()), nil)
		if err == nil {
			p.kept.Measured(k.ID, size.Bytes, size.Own)
		}
	}
	return measured && ctx.Err() == nil
}
