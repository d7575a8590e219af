package volume

import (
	"errors"
	"io/fs"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// put writes records to the disk, then to memory. Where that fails, memory takes
// over what stands on the disk.
func (p *Pool) put(h *handle, records ...Record) error {
	return p.write(h, records, func(files []file.Content) error {
		return file.Replace(h.Records, files, p.steps("record"))
	})
}

// putNew is put for a volume that has no record, and waits for the disk but once:
// for the record and what is beside it, such as the directory of records. A crash
// may leave an empty record, so nothing may have the volume's name before; see found.
func (p *Pool) putNew(h *handle, r Record, beside ...int) error {
	return p.write(h, []Record{r}, func(files []file.Content) error {
		err := file.Create(h.Records, files[0], p.steps("record"), beside...)
		if errors.Is(err, fs.ErrExist) { // an earlier call could not take it back
			err = file.Replace(h.Records, files, p.steps("record"), beside...)
		}
		return err
	})
}

// write encodes records, and remembers them once do has put them in place.
func (p *Pool) write(h *handle, records []Record, do func([]file.Content) error) error {
	files := make([]file.Content, len(records))
	for i := range records {
		records[i].Version = record.Version
		data, err := file.JSON(records[i])
		if err != nil {
			return err
		}
		files[i] = file.Content{Name: records[i].Name, Data: data}
	}
	err := do(files)
	for _, r := range records {
		if err != nil {
			p.reload(h, r.Name)
		} else {
			p.remember(r)
		}
	}
	return err
}

// drop removes a record from the disk, then from memory.
func (p *Pool) drop(h *handle, name string) error {
	p.step("record.remove")
	if err := file.Remove(h.Records, name); err != nil {
		return err
	}
	p.forget(name)
	p.step("record.sync")
	return file.Flush(h.Records)
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

// reload takes over into memory what stands on the disk, if it can be told.
func (p *Pool) reload(h *handle, name string) {
	r, err := record.Read(h.Records, name)
	switch {
	case err == nil && p.isLate(name, r.State): // it knows more than the disk
	case err == nil:
		p.remember(r)
	case errors.Is(err, fs.ErrNotExist):
		p.forget(name)
	}
}
