package volume

import (
	"bytes"
	"errors"
	"io/fs"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// found is what stands in a pool's records.
type found struct {
	records map[string]Record
	damaged map[string]error // and why
	// unwritten are those of creations that the power cut short: the file is there,
	// and nothing in it. What follows a record was not begun then.
	unwritten []string
}

// load reads every record into memory, and removes those without a content.
func (p *Pool) load(h *handle) error {
	all, err := readRecords(h)
	if err != nil {
		return err
	}
	for _, name := range all.unwritten {
		p.step("recover.unwritten")
		if err := file.Remove(h.Records, name); err != nil {
			return err
		}
	}
	p.reset(all.records, all.damaged, h.notes)
	p.meterAgain()
	return nil
}

// readRecords reads every record, and looks which volumes are in the trash.
func readRecords(h *handle) (all found, err error) {
	names, err := file.List(h.Private, pooldir.RecordsName)
	if err != nil {
		return all, err
	}
	all.records, all.damaged = map[string]Record{}, map[string]error{}
	for _, name := range names {
		if file.IsTemporary(name) {
			continue // being written
		}
		h.call.Progress()
		r, err := record.Read(h.Records, name)
		switch {
		case err == nil:
			all.records[name] = r
		case errors.Is(err, fs.ErrNotExist):
		case unwritten(h, name):
			all.unwritten = append(all.unwritten, name)
		default:
			all.damaged[name] = err
		}
	}
	// Later than the records: what a running process deletes meanwhile has either
	// no record, or its entry.
	return all, all.lookInTrash(h)
}

// lookInTrash finds the volumes that are there: their deletion began.
func (all *found) lookInTrash(h *handle) error {
	trash, err := file.List(h.Private, pooldir.TrashName)
	if err != nil || len(trash) == 0 {
		return err
	}
	entries := make(map[string]bool, len(trash))
	for _, name := range trash {
		entries[name] = true
	}
	for name, r := range all.records {
		if entries[r.Trash] {
			r.State = Deleting
			all.records[name] = r
		}
	}
	return nil
}

// unwritten reports whether a record has no content, and nothing is in place of
// its name. Where something is, it was damaged later. Some filesystems have a
// file's size before what is in it, and show zeros instead.
func unwritten(h *handle, name string) bool {
	data, err := file.Read(h.Records, name)
	if err != nil || CheckName(name) != nil || len(bytes.Trim(data, "\x00")) > 0 {
		return false
	}
	there, err := file.Exists(h.Base, name)
	return !there && err == nil
}
