package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// put writes a record to the disk, then to memory. Where that fails, memory
// takes over what stands on the disk. What is beside it is flushed with it.
func (p *Pool) put(h *handle, r Record, beside ...int) error {
	r.Version = recordVersion
	data, err := encode(r)
	if err != nil {
		return err
	}
	if err := writeFile(h.records, r.Name, data, p.steps("record"), beside...); err != nil {
		p.reload(h, r.Name)
		return err
	}
	p.remember(r)
	return nil
}

// drop removes a record from the disk, then from memory.
func (p *Pool) drop(h *handle, name string) error {
	p.step("record.remove")
	if err := remove(h.records, name); err != nil {
		return err
	}
	p.forget(name)
	p.step("record.sync")
	return flush(h.records)
}

// dropGone removes the record of a volume whose directory was just removed, or
// by a process that died since. The directory goes first also where the power
// does: it came back without a record otherwise, and kept the name.
func (p *Pool) dropGone(h *handle, name string) error {
	p.step("base.sync")
	if err := flush(h.base); err != nil {
		return err
	}
	return p.drop(h, name)
}

// reload takes over into memory what stands on the disk, if it can be told.
func (p *Pool) reload(h *handle, name string) {
	r, err := readRecord(h.records, name)
	switch {
	case err == nil && r.State == Creating && p.isLate(name):
		p.rememberReady(r)
	case err == nil:
		p.remember(r)
	case errors.Is(err, fs.ErrNotExist):
		p.forget(name)
	}
}

// readRecord reads the record of a volume. The error is ErrDamaged where it
// is there and cannot be understood.
func readRecord(records int, name string) (Record, error) {
	data, err := readFile(records, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, err
	}
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return parseRecord(name, data)
}

func parseRecord(name string, data []byte) (Record, error) {
	var r Record
	if err := CheckName(name); err != nil {
		return r, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case r.Version > recordVersion:
		return r, fmt.Errorf("%w: it is of version %d, this program knows up to %d", ErrDamaged, r.Version, recordVersion)
	case r.Name != name:
		return r, fmt.Errorf("%w: it is of volume %q", ErrDamaged, r.Name)
	case r.Bytes < 0, r.Bytes == 0 && !r.Adopted:
		return r, fmt.Errorf("%w: it promises %d bytes", ErrDamaged, r.Bytes)
	}
	switch r.State {
	case Creating, Ready, Bound:
		return r, nil
	case Deleting:
		if CheckName(r.Trash) != nil {
			return r, fmt.Errorf("%w: it is deleting to %q, which is no trash entry", ErrDamaged, r.Trash)
		}
		return r, nil
	}
	return r, fmt.Errorf("%w: its state is %q", ErrDamaged, r.State)
}
