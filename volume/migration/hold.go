// Package migration holds volumes whose PV is being replaced by another PV of the same
// directory.
package migration

import (
	"time"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A Hold keeps a volume as it is while its PV is replaced: calls that would delete it, or
// bind it to another PV or claim, return ErrMigrating. The hold is in the volume's record,
// so it survives restarts; it ends with Finish, FinishReturn or Release.
//
// Methods return ErrConflict after that, and change nothing.
type Hold struct {
	// Volume is the record with the journal of the migration, as of when the hold was
	// returned.
	Volume record.Record

	change Change
}

// Change changes the record of one volume on the disk, and nothing if do does not change
// it. It removes the record if do asks for that. op is for errors, and step names the change.
type Change func(op, step string, do func(*record.Record) (remove bool, err error)) error

// New returns the hold on a volume that is being migrated.
func New(r record.Record, change Change) *Hold { return &Hold{Volume: r, change: change} }

// CutOver writes that the old PV is about to be removed. It does nothing if that was
// written before.
func (h *Hold) CutOver() error {
	return h.advance("cut over the PV of volume", "cutover", func(m *record.Migration) *record.Migration {
		if m.Step != record.MigrationCutover {
			m.Step, m.Changed, m.Stopped = record.MigrationCutover, now(), ""
		}
		return m
	})
}

// Stop notes why the migration cannot continue, or with "" that it does. It does nothing
// if that is noted.
func (h *Hold) Stop(why string) error {
	return h.advance("stop the migration of volume", "stop", func(m *record.Migration) *record.Migration {
		m.Stopped = why
		return m
	})
}

// Finish ends the hold: the caller has seen the new PV, whose UID the record gets. The
// journal keeps the old one, for a way back, and a note of what is left to do, which may be
// "".
func (h *Hold) Finish(uid, note string) error {
	return h.finish(uid, false, func(m *record.Migration) *record.Migration {
		m.Step, m.Changed, m.Stopped = record.MigrationDone, now(), note
		m.New, m.Before = nil, nil
		return m
	})
}

// FinishReturn is Finish for a migration that restored the PV of the one before. It keeps
// the journal of neither. With forget, which the caller sets if another program manages
// the directory, the same write removes a record that the migration before created; others
// stay.
func (h *Hold) FinishReturn(uid string, forget bool) error {
	return h.finish(uid, forget, func(*record.Migration) *record.Migration { return nil })
}

func (h *Hold) finish(uid string, forget bool, change func(*record.Migration) *record.Migration) error {
	return h.end("finish the migration of volume", "finish", forget, func(r *record.Record) error {
		r.PVUID = uid
		return r.Advance(change)
	})
}

// Release ends the hold and restores the journal of before. If this migration created the
// record, the same write removes it. The caller has seen that the old PV is there and stays
// the volume's.
func (h *Hold) Release() error {
	return h.end("cancel the migration of volume", "cancel", true, func(r *record.Record) error {
		return r.Advance(func(m *record.Migration) *record.Migration { return m.Before })
	})
}

// end changes the journal. With forget the record goes if no journal is left and it was
// created for one; not if it has a quota, which would outlive it.
func (h *Hold) end(op, step string, forget bool, change func(*record.Record) error) error {
	return h.change(op, step, func(r *record.Record) (bool, error) {
		adopted := r.Migration != nil && r.Migration.Adopted
		err := change(r)
		return forget && adopted && r.Migration == nil && r.QuotaID == 0, err
	})
}

func (h *Hold) advance(op, step string, change func(*record.Migration) *record.Migration) error {
	return h.end(op, step, false, func(r *record.Record) error { return r.Advance(change) })
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }
