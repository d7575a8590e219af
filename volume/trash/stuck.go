package trash

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// maxStuck bounds the reason that a record keeps, in bytes: a tenant chose names in it.
const maxStuck = 500

// Left is what an emptying left in the trash.
type Left struct {
	// Entries counts the volumes that are still there.
	Entries int
	// Stuck are the reasons why entries were not removed, by name. The next emptying tries again.
	Stuck []string
}

// Left returns what the last emptying left.
func (t *Trash) Left() Left {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Left{Entries: t.left.Entries, Stuck: slices.Clone(t.left.Stuck)}
}

// reportStuck stores for Left why entries could not be removed, writes it
// into their records for Inspect, and returns it. It writes none for an undecided entry: a record in
// the trash says that the deletion is decided.
func (e *Emptying) reportStuck() error {
	var errs []error
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(e.undecided)) {
		err := fmt.Errorf("trash entry %s: %w", id, e.undecided[id])
		errs, lines = append(errs, err), append(lines, err.Error())
	}
	for _, id := range slices.Sorted(maps.Keys(e.stuck)) {
		err := fmt.Errorf("trash entry %s: %w", id, e.stuck[id])
		r, readErr := ReadRecord(e.dir, id)
		if r.Name != "" {
			err = fmt.Errorf("trash entry %s, once volume %s: %w", id, r.Name, e.stuck[id])
		}
		errs, lines = append(errs, err), append(lines, err.Error())
		if readErr == nil || errors.Is(readErr, fs.ErrNotExist) {
			e.noteStuck(id, r, oneLine(e.stuck[id]))
		}
	}
	e.trash.mu.Lock()
	defer e.trash.mu.Unlock()
	e.trash.left.Stuck = lines
	return errors.Join(errs...)
}

// noteStuck writes the reason into the record of a trash entry, which goes with the entry. It does
// nothing if the record has it. A failure is no error: the caller returns the reason.
func (e *Emptying) noteStuck(id string, r record.Record, why string) {
	if r.Stuck == why || r.Version > record.Version {
		return
	}
	if r.Name == "" { // it had no record
		r.Version, r.State, r.Trash = record.Version, record.Deleting, id
	}
	r.Stuck = why
	if data, err := file.JSON(r); err == nil {
		_ = file.Replace(e.dir.Trash, []file.Content{{Name: id + record.Suffix, Data: data}},
			func(part string) { e.trash.step("purge.note." + part) })
	}
}

func oneLine(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(text) > maxStuck {
		text = strings.ToValidUTF8(text[:maxStuck], "") + "..."
	}
	return text
}

// ReadRecord reads the record of an entry as far as it can be understood.
func ReadRecord(d *pooldir.Dir, id string) (r record.Record, err error) {
	data, err := file.Read(d.Trash, id+record.Suffix)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}
