package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// maxStuck bounds the reason that a record keeps, in bytes: it has names of the
// tenant's choice in it.
const maxStuck = 500

// Stuck returns the trash entries that the last Purge could not remove, with the
// reason, in the order of their names. The next Purge tries again.
func (p *Pool) Stuck() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.stuck)
}

// reportStuck remembers for Stuck why entries could not be removed, writes it
// into their records for Inspect, and returns it.
func (p *Pool) reportStuck(h *handle, stuck map[string]error) error {
	var errs []error
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(stuck)) {
		err := fmt.Errorf("trash entry %s: %w", id, stuck[id])
		r, readErr := trashRecord(h.Trash, id)
		if r.Name != "" {
			err = fmt.Errorf("trash entry %s, once volume %s: %w", id, r.Name, stuck[id])
		}
		errs, lines = append(errs, err), append(lines, err.Error())
		if readErr == nil || errors.Is(readErr, fs.ErrNotExist) {
			p.noteStuck(h, id, r, oneLine(stuck[id]))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck = lines
	return errors.Join(errs...)
}

// noteStuck writes the reason into the record of a trash entry, which goes with
// the entry. It does nothing if the record has it. A failure is not an error: the
// caller returns the reason all the same.
func (p *Pool) noteStuck(h *handle, id string, r Record, why string) {
	if r.Stuck == why || r.Version > record.Version {
		return
	}
	if r.Name == "" { // it had no record
		r.Version, r.State, r.Trash = record.Version, Deleting, id
	}
	r.Stuck = why
	if data, err := file.JSON(r); err == nil {
		_ = file.Replace(h.Trash, []file.Content{{Name: id + record.Suffix, Data: data}}, p.steps("purge.note"))
	}
}

// oneLine is the text of an error for a record.
func oneLine(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(text) > maxStuck {
		text = strings.ToValidUTF8(text[:maxStuck], "") + "..."
	}
	return text
}

// trashRecord reads the record of a trash entry as far as it can be understood.
func trashRecord(trash int, id string) (r Record, err error) {
	data, err := file.Read(trash, id+record.Suffix)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}
