package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// A purge does what was left to it so that no caller waits for the disk longer
// than has to be. It never waits for a call: what somebody works on is left to
// the next one.

// lateAtOnce is how many records are written together: enough to share commits of
// the filesystem's journal, and few enough that nobody waits for their volumes.
const lateAtOnce = 8

// settleLate writes the records that are ahead of what the disk says.
func (p *Pool) settleLate(ctx context.Context, h *handle) error {
	var errs []error
	for names := range slices.Chunk(p.allLate(), lateAtOnce) {
		if ctx.Err() != nil {
			break
		}
		h.call.Progress()
		errs = append(errs, p.putLate(h, names))
	}
	return errors.Join(errs...)
}

func (p *Pool) putLate(h *handle, names []string) error {
	var records []Record
	for _, name := range names {
		unlock, free := p.names.TryLock(name)
		if !free {
			continue
		}
		defer unlock()
		if r, late := p.lateRecord(name); late {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil
	}
	p.step("purge.late")
	if p.put(h, records...) == nil {
		return nil
	}
	// One of them may be in the way of the others.
	var errs []error
	for _, r := range records {
		if err := p.put(h, r); err != nil {
			errs = append(errs, fmt.Errorf("record %s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}

// settleTrash ends the deletions whose entries are among the names in the trash
// and whose records are not there. It returns the entries of those that it did
// not end.
func (p *Pool) settleTrash(h *handle, names []string) (moving map[string]bool, err error) {
	moving = map[string]bool{}
	var errs []error
	for _, r := range p.unsettled() {
		if r.State != Deleting || !slices.Contains(names, r.Trash) {
			continue
		}
		h.call.Progress()
		free, err := p.trySettle(h, r.Name)
		if err != nil {
			errs = append(errs, fault.Failed("settle volume", r.Name, err))
		}
		moving[r.Trash] = !free || err != nil
	}
	return moving, errors.Join(errs...)
}

// trySettle is settleLocked where nobody works on the volume.
func (p *Pool) trySettle(h *handle, name string) (free bool, err error) {
	unlock, free := p.names.TryLock(name)
	if !free {
		return false, nil
	}
	defer unlock()
	return true, p.settleNoted(h, name)
}
