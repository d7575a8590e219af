package record

import (
	"encoding/json"
	"fmt"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Migration is the journal of a volume whose PV is replaced by another one of the same name, while
// the directory stays as it is. It is on the pool, so that it survives restarts and users of the
// volume cannot edit it. A journal is never changed, only replaced.
type Migration struct {
	Step MigrationStep `json:"step"`
	// To is the kind of PV that is wanted, in a word of the caller's.
	To string `json:"to"`
	// Old is the PV before the migration, and New the PV that replaces it, as the caller wrote
	// them. The package does not read them. A migration that is done has the old one alone.
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

// MaxSize bounds the size of a record with a journal, in bytes. Load reads twice as much of a
// record, and later notes on it are short.
const MaxSize = 512 << 10

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

// A MigrationChange changes the journal of a migration that is under way.
type MigrationChange struct {
	Op, Step string // what it does, for errors, and its name
	// change gets a record whose journal is a copy.
	change func(*Record)
	// forget is set if a record that was created for its journal goes with it.
	forget bool
}

// CutOver writes that the old PV is about to be removed, unless that was written before.
func CutOver() MigrationChange {
	return MigrationChange{Op: "cut over the PV of volume", Step: "cutover", change: func(r *Record) {
		if r.Migration.Step != MigrationCutover {
			r.Migration.Step, r.Migration.Stopped = MigrationCutover, ""
		}
	}}
}

// StopMigration notes why the migration cannot continue, or with "" that it does. It changes
// nothing if that is noted.
func StopMigration(why string) MigrationChange {
	return MigrationChange{Op: "stop the migration of volume", Step: "stop",
		change: func(r *Record) { r.Migration.Stopped = why }}
}

// FinishMigration ends the migration: the caller has seen the new PV, whose UID the record gets.
// The journal keeps the old one, for a way back, and a note of what is left to do, which may be "".
func FinishMigration(uid, note string) MigrationChange {
	return MigrationChange{Op: opFinish, Step: "finish", change: func(r *Record) {
		r.PVUID = uid
		m := r.Migration
		m.Step, m.Stopped, m.New, m.Before = MigrationDone, note, nil, nil
	}}
}

// FinishReturn is FinishMigration for a migration that restored the PV of the one before. It keeps
// the journal of neither. With forget, which the caller sets if another program manages the
// directory, the same write removes a record that the migration before created; others stay.
func FinishReturn(uid string, forget bool) MigrationChange {
	return MigrationChange{Op: opFinish, Step: "finish", forget: forget, change: func(r *Record) {
		r.PVUID, r.Migration = uid, nil
	}}
}

// EndMigration ends a migration of another cluster: a PV of this one, with that UID, is bound to the
// volume. isNew is set if it is of the kind that was wanted; otherwise the journal of before is
// restored. The record stays, because the PV that it was created for is not here.
func EndMigration(uid string, isNew bool) MigrationChange {
	if isNew {
		return FinishMigration(uid, "")
	}
	return MigrationChange{Op: opFinish, Step: "end", change: func(r *Record) {
		r.PVUID, r.Migration = uid, r.Migration.Before
	}}
}

const opFinish = "finish the migration of volume"

// CancelMigration ends the migration and restores the journal of before. If this migration created
// the record, the same write removes it. The caller has seen that the old PV stays.
func CancelMigration() MigrationChange {
	return MigrationChange{Op: "cancel the migration of volume", Step: "cancel", forget: true,
		change: func(r *Record) { r.Migration = r.Migration.Before }}
}

// Apply returns the record with the change, and whether to remove it: if no journal is left
// and it was created for one, unless it has a quota, which would outlive it. The record is the
// same if it has the change already. The error is ErrConflict if no migration is under way.
func (c MigrationChange) Apply(r Record, now time.Time) (changed Record, remove bool, err error) {
	if r.Migrating() == nil {
		return r, false, fmt.Errorf("%w: it is not being migrated", fault.ErrConflict)
	}
	before, copied := r.Migration, *r.Migration
	r.Migration = &copied
	c.change(&r)
	switch {
	case r.Migration != &copied: // it is over
	case copied.Step != before.Step:
		copied.Changed = now
	case copied.Stopped == before.Stopped:
		r.Migration = before
	}
	return r, c.forget && before.Adopted && r.Migration == nil && r.QuotaID == 0, nil
}

// Migrating returns ErrMigrating while the volume's PV is being replaced, and nil otherwise.
// Until then only the migrator acts on the volume's PVs: both may be missing for a moment,
// or name different backends.
func (r Record) Migrating() error {
	if m := r.Migration; m != nil && m.Step != MigrationDone {
		return fmt.Errorf("%w to a %s PV (%s)", fault.ErrMigrating, r.Migration.To, r.Migration.Step)
	}
	return nil
}
