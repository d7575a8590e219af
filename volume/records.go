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
func (p *Pool) put(c *call, records ...Record) error {
	return p.records.Put(c.Records, p.steps("record"), records...)
}

// drop removes a record from the disk, then from memory.
func (p *Pool) drop(c *call, name string) error {
	return p.records.Drop(c.Records, p.steps("record"), name)
}

// dropGone removes the record of a volume whose directory was just removed, or
// by a process that died since. The directory goes first also where the power
// does: it came back without a record otherwise, and kept the name.
func (p *Pool) dropGone(c *call, name string) error {
	p.step("base.sync")
	if err := file.Flush(c.Base); err != nil {
		return err
	}
	return p.drop(c, name)
}

// load reads every record into memory, and removes those without a content. It begins
// the notes anew with the given ones.
func (p *Pool) load(c *call, notes []string) error {
	all, err := record.Load(record.Dirs{Base: c.Base, Records: c.Records, Trash: c.Trash, Progress: c.Progress})
	if err != nil {
		return err
	}
	for _, name := range all.Unwritten {
		p.step("recover.unwritten")
		if err := file.Remove(c.Records, name); err != nil {
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
func (p *Pool) flushLateRecords(ctx context.Context, c *call) error {
	var errs []error
	for names := range slices.Chunk(p.records.AllLate(), lateAtOnce) {
		if ctx.Err() != nil {
			break
		}
		c.Progress()
		errs = append(errs, p.putLate(c, names))
	}
	return errors.Join(errs...)
}

func (p *Pool) putLate(c *call, names []string) error {
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
	if p.put(c, records...) == nil {
		return nil
	}
	// One of them may be in the way of the others.
	var errs []error
	for _, r := range records {
		if err := p.put(c, r); err != nil {
			errs = append(errs, fmt.Errorf("record %s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}
