package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A purge does what was left to it so that no caller waits for the disk longer
// than has to be. It never waits for a call: what somebody works on is left to
// the next one.

// settleReady writes the records of volumes that are ready and creating on the
// disk.
func (p *Pool) settleReady(ctx context.Context, h *handle) error {
	var errs []error
	for _, name := range p.allLate() {
		if ctx.Err() != nil {
			break
		}
		if err := p.putLate(h, name); err != nil {
			errs = append(errs, fmt.Errorf("record %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Pool) putLate(h *handle, name string) error {
	unlock, free := p.names.tryLock(name)
	if !free {
		return nil
	}
	defer unlock()
	r, ok := p.record(name)
	if !ok || !p.isLate(name) {
		return nil
	}
	p.step("purge.ready")
	return p.put(h, r)
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
		free, err := p.trySettle(h, r.Name)
		if err != nil {
			errs = append(errs, failed("settle volume", r.Name, err))
		}
		moving[r.Trash] = !free || err != nil
	}
	return moving, errors.Join(errs...)
}

// trySettle is settleLocked where nobody works on the volume.
func (p *Pool) trySettle(h *handle, name string) (free bool, err error) {
	unlock, free := p.names.tryLock(name)
	if !free {
		return false, nil
	}
	defer unlock()
	return true, p.settleNoted(h, name)
}
