package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/trash"
)

// Purge moves those kept volumes to the trash whose time is over or whose room is needed, and then
// empties the trash at Config.PurgeRate, its entries in turns. more reports whether
// entries are left that another call can remove. The joined errors have the reasons of those
// that cannot be removed. Purge may take long; ctx stops it between two files, and the next
// call continues. Calls wait for each other.
//
// Purge removes nothing outside the trash: if it finds a mount there, it leaves the mount
// and the directories above it, and returns an error.
func (p *Pool) Purge(ctx context.Context) (more bool, err error) {
	left := 0
	err = p.withPoolInLongSteps(ctx, "purge pool", p.path, func(ctx context.Context, c *call) error {
		emptying, end, err := p.trash.Begin(c.Call, c.Dir, c.quotas)
		if err != nil {
			return err
		}
		defer end()
		errs := p.purge(ctx, c, emptying)
		names, err := emptying.Names()
		left = len(names) - p.keptInTrash(names)
		return errors.Join(errs, err)
	})
	return err != nil || left > 0, err
}

// purge writes deferred records, moves kept volumes to the trash that are due, recovers deletions and
// empties the trash, in rounds. It measures kept volumes once the trash is empty.
func (p *Pool) purge(ctx context.Context, c *call, emptying *trash.Emptying) error {
	for {
		dropped := p.dropDue(c)
		names, err := emptying.Names()
		if err != nil {
			return err
		}
		written := p.writeDeferred(ctx, c)
		moving, recovered := p.recoverDeletions(c, names)
		again, err := emptying.Round(ctx, names, moving, p.undecided(names))
		left, unread := emptying.Removable()
		if unread == nil {
			p.room.Left(left)
		}
		if !again && ctx.Err() == nil {
			again = p.measureKept(ctx, c)
		}
		if !again || ctx.Err() != nil {
			p.matchSources(c)
			return errors.Join(dropped, written, recovered, err, unread, p.writeKept(c))
		}
	}
}

// Trash returns what the last Purge left in the trash.
func (p *Pool) Trash() trash.Left { return p.trash.Left() }

// recoverDeletions finishes the deletions whose entries, or whose records, are among the
// names in the trash. It returns the entries of those that it did not finish.
func (p *Pool) recoverDeletions(c *call, names []string) (moving map[string]bool, err error) {
	moving = map[string]bool{}
	var errs []error
	for _, r := range p.records.Unfinished() {
		if r.Returning != "" {
			moving[r.Returning] = true
			continue
		}
		if r.State != record.Deleting && !r.Aside || !slices.Contains(names, r.Trash) &&
			!slices.Contains(names, r.Trash+record.Suffix) {
			continue
		}
		c.Progress()
		free, err := p.tryRecover(c, r.Name)
		if err != nil {
			errs = append(errs, fault.Failed("recover volume", r.Name, err))
		}
		now, known := p.records.Get(r.Name)
		moving[r.Trash] = !free || err != nil || known && now.Trash == r.Trash && now.Aside
	}
	return moving, errors.Join(errs...)
}

// undecided returns, with the reason, the entries among the names that may be of a volume whose
// deletion is not decided: those without any record, while a record of the pool cannot be
// understood. Its volume may be one that was set aside, or that was being restored.
func (p *Pool) undecided(names []string) map[string]error {
	damaged := p.records.Damaged()
	if len(damaged) == 0 {
		return nil
	}
	why := fmt.Errorf("it has no record, and may be the volume of one of %d that cannot be read (%s): "+
		"bring that record back, or move the entry out of the trash", len(damaged), damaged[0])
	kept := map[string]error{}
	for _, name := range record.Lone(names, slices.Values(p.records.InTrash())) {
		kept[name] = why
	}
	return kept
}

// keptInTrash returns how many of the names are of volumes that are set aside.
func (p *Pool) keptInTrash(names []string) (n int) {
	for _, r := range p.records.InTrash() {
		if slices.Contains(names, r.Trash) || slices.Contains(names, r.Returning) {
			n++
		}
	}
	return n
}

// tryRecover is recoverLocked for a volume on which no call works; otherwise it does nothing.
func (p *Pool) tryRecover(c *call, name string) (free bool, err error) {
	unlock, free := p.names.TryLock(name)
	if !free {
		return false, nil
	}
	defer unlock()
	return true, p.recoverNoted(c, name)
}
