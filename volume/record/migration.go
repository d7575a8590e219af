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
	// Old is the PV before the migration, and New the one that takes its place,
	// as the caller wrote them; nothing here reads them. A migration that is
	// done has the old one alone.
	Old json.RawMessage `json:"old"`
	New json.RawMessage `json:"new,omitempty"`
	// Stopped says why the migration does not go on; "" where it does.
	Stopped string `json:"stopped,omitempty"`
	// Before is the journal that this one took the place of.
	Before *Migration `json:"before,omitempty"`

	Began   time.Time `json:"began"`
	Changed time.Time `json:"changed"` // when Step was written
}

// MigrationStep is how far a migration is; what it says is written down before
// it is done.
type MigrationStep string

// The steps, in their order.
const (
	// MigrationPrepared: it can still be given up, for the old PV is there.
	MigrationPrepared MigrationStep = "prepared"
	// MigrationCutover: the old PV may be gone, and the new one not there yet.
	MigrationCutover MigrationStep = "cutover"
	// MigrationDone: the new PV is there, and is the volume's from now on.
	MigrationDone MigrationStep = "done"
)

// MaxJournal bounds what a journal says of PVs, in bytes: a record is indented
// when it is written, and read up to file.MaxBytes.
const MaxJournal = file.MaxBytes / 4

// Finished returns the journal of the last migration that is done; nil if there is none.
func (m *Migration) Finished() *Migration {
	if m != nil && m.Step != MigrationDone {
		return m.Before
	}
	return m
}

// Advance replaces the journal of a migration that is under way. change is
// given a copy; the journal stays the same one where the copy says the same.
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
