package record

import (
	"encoding/json"
	"fmt"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
)

// Migration is the journal of a volume whose PV is replaced by another one of
// the same name, while the directory stays as it is. It is on the pool, so that
// it survives restarts and users of the volume cannot edit it. A journal is never changed,
// only replaced.
type Migration struct {
	Step MigrationStep `json:"step"`
	// To is the kind of PV that is wanted, in a word of the caller's.
	To string `json:"to"`
	// Old is the PV before the migration, and New the PV that replaces it, as the
	// caller wrote them. The package does not read them. A migration that is done
	// has the old one alone.
	Old json.RawMessage `json:"old"`
	New json.RawMessage `json:"new,omitempty"`
	// Adopted: the record was created with this journal, or with one that it replaced, because
	// another program manages the directory of the old PV. The record goes with the journal.
	Adopted bool `json:"adopted,omitempty"`
	// Stopped is the reason why the migration does not continue; "" if it does.
	Stopped string `json:"stopped,omitempty"`
	// Before is the journal that this one replaced.
	Before *Migration `json:"before,omitempty"`

	Began   time.Time `json:"began"`
	Changed time.Time `json:"changed"` // when Step was written
}

// MigrationStep is the progress of a migration. A step is written before it is done.
type MigrationStep string

// The steps, in their order.
const (
	// MigrationPrepared: the migration can be abandoned, because the old PV exists.
	MigrationPrepared MigrationStep = "prepared"
	// MigrationCutover: the old PV may be deleted, and the new one may not exist yet.
	MigrationCutover MigrationStep = "cutover"
	// MigrationDone: the new PV exists and is the PV of the volume.
	MigrationDone MigrationStep = "done"
)

// MaxSize bounds the size of a record with a journal, in bytes. A record is read up to
// file.MaxBytes, and later notes on it are short.
const MaxSize = file.MaxBytes / 2

// Size returns the size of the record as it is written, with each entry of a list on a line of
// its own. It returns more than MaxSize if the record cannot be written.
func (r *Record) Size() int {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return MaxSize + 1
	}
	return len(data)
}

// Begin adds the journal of a migration that begins, with the former one. It changes nothing if
// the record would be too long to be read again: the error has the sizes.
func (r *Record) Begin(m Migration) error {
	next := *r
	m.Step, m.Before = MigrationPrepared, r.Migration
	next.Migration = &m
	if size := next.Size(); size > MaxSize {
		return fmt.Errorf("with the old PV and the new one, of %d bytes, the record would have %d, at most %d fit",
			len(m.Old)+len(m.New), size, MaxSize)
	}
	*r = next
	return nil
}

// Finished returns the journal of the last migration that is done; nil if there is none.
func (m *Migration) Finished() *Migration {
	if m != nil && m.Step != MigrationDone {
		return m.Before
	}
	return m
}

// Advance replaces the journal of a migration that is under way by the result of change,
// which gets a copy. It does nothing if change returns the copy with the same step and
// reason.
func (r *Record) Advance(change func(*Migration) *Migration) error {
	if r.Held() == nil {
		return fmt.Errorf("%w: it is not being migrated", fault.ErrConflict)
	}
	copied := *r.Migration
	next := change(&copied)
	if next == &copied && copied.Step == r.Migration.Step && copied.Stopped == r.Migration.Stopped {
		return nil
	}
	r.Migration = next
	return nil
}

// Held returns ErrMigrating while the volume's PV is being replaced, and nil otherwise.
// Until then only the holder acts on the volume's PVs: both may be missing for a moment,
// or name different backends.
func (r Record) Held() error {
	if m := r.Migration; m != nil && m.Step != MigrationDone {
		return fmt.Errorf("%w to a %s PV (%s)", fault.ErrMigrating, r.Migration.To, r.Migration.Step)
	}
	return nil
}
