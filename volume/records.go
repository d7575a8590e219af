package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// put writes records to the disk, then to memory; see record.Store.
func (p *Pool) put(h *handle, records ...Record) error {
	return p.records.Put(h.Records, p.steps("record"), records...)
}

// drop removes a record from the disk, then from memory.
func (p *Pool) drop(h *handle, name string) error {
	return p.records.Drop(h.Records, p.steps("record"), name)
}

// dropGone removes the record of a volume whose directory was just removed, or
// by a process that died since. The directory goes first also where the power
// does: it came back without a record otherwise, and kept the name.
func (p *Pool) dropGone(h *handle, name string) error {
	p.step("base.sync")
	if err := file.Flush(h.Base); err != nil {
		return err
	}
	return p.drop(h, name)
}

// load reads every record into memory, and removes those without a content. It begins
// the notes anew with the given ones.
func (p *Pool) load(h *handle, notes []string) error {
	all, err := record.Load(record.Dirs{Base: h.Base, Records: h.Records, Trash: h.Trash, Progress: h.call.Progress})
	if err != nil {
		return err
	}
	for _, name := range all.Unwritten {
		p.step("recover.unwritten")
		if err := file.Remove(h.Records, name); err != nil {
			return err
		}
	}
	p.ledger.Reset() // first: another pool must not count old use for new records
	p.resetNotes(notes)
	p.quotas.Reset()
	p.records.Reset(all)
	p.ledger.ReadAgain()
	return nil
}

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
