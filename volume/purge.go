package volume

import (
	"context"
	"errors"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/trash"
)

// Purge empties the trash at Config.PurgeRate, its entries in turns. It returns
// whether something is left: what could not be removed, for which the joined
// errors say why, or what is still to be removed, for which the caller calls
// again. It may take long; ctx stops it between two files, and the next call
// goes on. Calls wait for each other.
//
// Nothing outside the trash is touched: a mount found there stays, with the
// directories above it, and is reported.
func (p *Pool) Purge(ctx context.Context) (more bool, err error) {
	const op = "purge pool"
	left := 0
	err = p.long(ctx, op, func(ctx context.Context, c *call) error {
		emptying, end, err := p.trash.Begin(c.Call, c.Dir, c.quotas)
		if err != nil {
			return err
		}
		defer end()
		errs := p.purge(ctx, c, emptying)
		names, err := emptying.Names()
		left = len(names)
		return errors.Join(errs, err)
	})
	return err != nil || left > 0, fault.Failed(op, p.path, err)
}

// purge flushes the records, recovers deletions and empties the trash, in rounds.
func (p *Pool) purge(ctx context.Context, c *call, emptying *trash.Emptying) error {
	for {
		names, err := emptying.Names()
		if err != nil {
			return err
		}
		flushed := p.flushLateRecords(ctx, c)
		moving, recovered := p.recoverDeletions(c, names)
		again, err := emptying.Round(ctx, names, moving)
		if !again || ctx.Err() != nil {
			return errors.Join(flushed, recovered, err)
		}
	}
}

// Stuck returns the trash entries that the last Purge could not remove, with the
// reason, in the order of their names. The next Purge tries again.
func (p *Pool) Stuck() []string { return p.trash.Stuck() }

// recoverDeletions ends the deletions whose entries are among the names in the trash
// and whose records are not there. It returns the entries of those that it did
// not end.
func (p *Pool) recoverDeletions(c *call, names []string) (moving map[string]bool, err error) {
	moving = map[string]bool{}
	var errs []error
	for _, r := range p.records.Unfinished() {
		if r.State != Deleting || !slices.Contains(names, r.Trash) {
			continue
		}
		c.Progress()
		free, err := p.tryRecover(c, r.Name)
		if err != nil {
			errs = append(errs, fault.Failed("recover volume", r.Name, err))
		}
		moving[r.Trash] = !free || err != nil
	}
	return moving, errors.Join(errs...)
}

// tryRecover is recoverLocked where nobody works on the volume.
func (p *Pool) tryRecover(c *call, name string) (free bool, err error) {
	unlock, free := p.names.TryLock(name)
	if !free {
		return false, nil
	}
	defer unlock()
	return true, p.recoverNoted(c, name)
}
