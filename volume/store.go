package volume

import (
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
