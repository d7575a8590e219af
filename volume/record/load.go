//go:build linux

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"regexp"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
)

// A record of MaxSize is read whole, with the notes that are added to it.
const _ = uint(file.MaxBytes - 2*MaxSize)

// Dirs are a pool's directories.
type Dirs struct {
	Base, Records, Trash int // open for reading
	Kept                 int // the same, or -1
	// Progress is called before each record is read.
	Progress func()
}

// Loaded is the content of a pool's records.
type Loaded struct {
	Records map[string]Record
	Damaged map[string]error // and why
	// Unwritten are files without content, of creations that a power cut ended: the
	// steps after the record were not begun.
	Unwritten []string
}

// Load reads every record, and checks which volumes are in the trash.
func Load(d Dirs) (all Loaded, err error) {
	names, err := file.List(d.Records, ".")
	if err != nil {
		return all, err
	}
	all.Records, all.Damaged = map[string]Record{}, map[string]error{}
	for _, name := range names {
		if file.IsTemporary(name) {
			continue // being written
		}
		d.Progress()
		r, err := Read(d.Records, name)
		switch {
		case err == nil:
			all.Records[name] = r
		case errors.Is(err, fs.ErrNotExist):
		case unwritten(d, name):
			all.Unwritten = append(all.Unwritten, name)
		default:
			all.Damaged[name] = err
		}
	}
	// Later than the records: what is deleted meanwhile has either no record, or its entry.
	return all, all.findInTrash(d)
}

// findInTrash marks the volumes whose directories are in the trash or among the kept volumes, and those
// whose records are: their deletion is decided. A power cut can leave a record in both directories.
func (all *Loaded) findInTrash(d Dirs) error {
	trash, err := file.List(d.Trash, ".")
	if err != nil {
		return err
	}
	if d.Kept >= 0 {
		kept, err := file.List(d.Kept, ".")
		if err != nil {
			return err
		}
		trash = append(trash, kept...)
	}
	if len(trash) == 0 {
		return nil
	}
	entries := make(map[string]bool, len(trash))
	for _, name := range trash {
		entries[name] = true
	}
	for name, r := range all.Records {
		switch {
		case r.Trash == "":
			continue
		case entries[r.Trash+Suffix]:
			r.State = Deleting
		case entries[r.Trash] && r.State != Deleting: // an older program wrote that state once it had decided
			r.Aside = true
			if r.State == Creating { // the write of ready was deferred
				r.State = Ready
			}
		default:
			continue
		}
		all.Records[name] = r
	}
	all.keepUnwritten(trash)
	return nil
}

// keepUnwritten counts the records without content as damaged if the trash, or what is kept, has an
// entry without any record: the entry may be the volume of one of them.
func (all *Loaded) keepUnwritten(trash []string) {
	lone := Lone(trash, maps.Values(all.Records))
	if len(lone) == 0 {
		return
	}
	for _, name := range all.Unwritten {
		all.Damaged[name] = fmt.Errorf("%w: it is empty, and %s in the trash has no record", fault.ErrDamaged, lone[0])
	}
	all.Unwritten = nil
}

// SnapshotSuffix ends the name of a snapshot until it takes the place of the staged directory of its copy,
// which has the name before it.
const SnapshotSuffix = "-new"

// wasSnapshot is the name in the trash of a snapshot that never took that place: it was no volume.
var wasSnapshot = regexp.MustCompile(`^[A-Z2-7]{26}` + SnapshotSuffix + `$`) // see rand.Text

// Lone returns the entries without any record among the names in a trash, in their order: none of
// the records names them, and there is no record beside them. If a record of the pool cannot be read,
// they may be its volume.
func Lone(trash []string, records iter.Seq[Record]) (entries []string) {
	named := map[string]bool{}
	for r := range records {
		named[r.Trash], named[r.Returning] = true, true
	}
	for _, name := range trash {
		if id, is := strings.CutSuffix(name, Suffix); is {
			named[id] = true
		}
	}
	for _, name := range trash {
		if !named[name] && !strings.HasSuffix(name, Suffix) && !file.IsTemporary(name) && !wasSnapshot.MatchString(name) {
			entries = append(entries, name)
		}
	}
	return entries
}

// unwritten reports whether a record has no content, and nothing is in place of
// its name. Where something is, it was damaged later. Some filesystems have a
// file's size before what is in it, and show zeros instead.
func unwritten(d Dirs, name string) bool {
	data, err := file.Read(d.Records, name)
	if err != nil || fault.CheckName(name) != nil || len(bytes.Trim(data, "\x00")) > 0 {
		return false
	}
	there, err := file.Exists(d.Base, name)
	return !there && err == nil
}

// Read reads the record of a volume. The error is ErrDamaged where it
// is there and cannot be understood.
func Read(records int, name string) (Record, error) {
	data, err := file.Read(records, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, err
	}
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", fault.ErrDamaged, err)
	}
	return Parse(name, data)
}
