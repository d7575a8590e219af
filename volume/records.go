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
func (p *Pool) put(c *call, records ...record.Record) error {
	return p.records.Put(c.Records, p.steps("record"), records...)
}

// putFirst is put for the first change of a call to the disk; see begin.
func (p *Pool) putFirst(c *call, step string, r record.Record) error {
	if err := p.begin(c, step); err != nil {
		return err
	}
	return p.put(c, r)
}

// drop removes a record from the disk, then from memory.
func (p *Pool) drop(c *call, name string) error {
	return p.records.Drop(c.Records, p.steps("record"), name)
}

// dropGone removes the record of a volume whose directory was just removed, or by a
// process that was killed since. It flushes the removal first: after a power cut the
// directory could come back without a record otherwise, and keep the name taken.
func (p *Pool) dropGone(c *call, name string) error {
	p.step("base.sync")
	if err := file.Flush(c.Base); err != nil {
		return err
	}
	return p.drop(c, name)
}

// load reads all records into memory, and removes those without content. It replaces all
// notes with the given ones.
func (p *Pool) load(c *call, notes []string) error {
	all, err := record.Load(record.Dirs{Base: c.Base, Records: c.Records, Trash: c.Trash, Kept: c.Kept(),
		Progress: c.Progress})
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
	p.mu.Lock()
	p.notes = notes
	p.mu.Unlock()
	p.seen.Clear()
	p.quotas.Reset()
	p.records.Reset(all)
	p.ledger.ReadAgain()
	return nil
}

// left forgets a volume that was deleted, or is being deleted.
func (p *Pool) left(name string) {
	p.ledger.Forget(name)
	p.quotas.Forget(name)
	p.seen.Delete(name)
}

// Some calls defer a record: they change it in memory, and the next purge writes it, so that the
// caller does not wait for the disk. Recovery derives the same record from the rest of the disk. A
// purge waits for no call: it leaves the records of volumes that a call works on to the next purge.

// deferredAtOnce is how many deferred records are written together: enough to share commits
// of the filesystem's journal, and few enough that their volumes are locked only shortly.
const deferredAtOnce = 8

func (p *Pool) writeDeferred(ctx context.Context, c *call) error {
	var errs []error
	for names := range slices.Chunk(p.records.AllDeferred(), deferredAtOnce) {
		if ctx.Err() != nil {
			break
		}
		c.Progress()
		errs = append(errs, p.putDeferred(c, names))
	}
	return errors.Join(errs...)
}

func (p *Pool) putDeferred(c *call, names []string) error {
	var records []record.Record
	for _, name := range names {
		unlock, free := p.names.TryLock(name)
		if !free {
			continue
		}
		defer unlock()
		if r, deferred := p.records.Deferred(name); deferred {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil
	}
	p.step("purge.deferred")
	if p.put(c, records...) == nil {
		return nil
	}
	// One record that cannot be written must not keep the others from the disk.
	var errs []error
	for _, r := range records {
		if err := p.put(c, r); err != nil {
			errs = append(errs, fmt.Errorf("record %s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}
