package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Some calls leave a record to the next purge, so that their callers do not wait
// for the disk. A purge never waits for a call: it leaves the records of volumes
// that are in use by one to the next purge.

// lateAtOnce is how many records are written together: enough to share commits of
// the filesystem's journal, and few enough that nobody waits for their volumes.
const lateAtOnce = 8

// flushLateRecords writes the records that are ahead of what the disk says.
func (p *Pool) flushLateRecords(ctx context.Context, h *handle) error {
	var errs []error
	for names := range slices.Chunk(p.records.AllLate(), lateAtOnce) {
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
		if r, late := p.records.Late(name); late {
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
