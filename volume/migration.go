package volume

import (
	"fmt"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// BeginMigration writes a journal at its first step, with the given To, Old and
// New. The volume's directory is looked at, and nothing else is touched.
//
// The error is ErrNotFound where the volume or its directory is not there,
// ErrConflict or ErrInUse where something else is in the directory's place,
// ErrConflict where no PV was seen yet, ErrMigrating where a migration is
// under way, ErrInvalid where the PVs are too long to be read again.
func (p *Pool) BeginMigration(name string, m Migration) error {
	return p.migrate("begin the migration of volume", name, "begin", func(h *handle, r *Record) error {
		switch {
		case r.Migration.UnderWay():
			return ErrMigrating
		case r.State != Bound || r.Ephemeral:
			return fmt.Errorf("%w: no PV names it", ErrConflict)
		case len(m.Old)+len(m.New) > record.MaxJournal:
			return fmt.Errorf("%w: the old PV and the new one have %d bytes, at most %d fit", ErrInvalid, len(m.Old)+len(m.New), record.MaxJournal)
		}
		if err := h.CheckPlain(name); err != nil {
			return err
		}
		now := now()
		r.Migration = &Migration{
			Step: MigrationPrepared, To: m.To, Old: m.Old, New: m.New, Before: r.Migration, Began: now, Changed: now,
		}
		return nil
	})
}

// CutOver writes that the old PV is about to be removed. It does nothing where
// that was written already. The error is ErrConflict where no migration is
// under way.
func (p *Pool) CutOver(name string) error {
	return p.migrate("cut over the PV of volume", name, "cutover", func(_ *handle, r *Record) error {
		return r.Advance(func(m *Migration) *Migration {
			if m.Step != MigrationCutover {
				m.Step, m.Changed, m.Stopped = MigrationCutover, now(), ""
			}
			return m
		})
	})
}

// FinishMigration writes that the new PV is in place, which the caller has
// seen. The old one is kept, for a way back. A note says what was left to do;
// it may be "". The error is ErrConflict where no migration is under way.
func (p *Pool) FinishMigration(name, note string) error {
	return p.migrate("finish the migration of volume", name, "finish", func(_ *handle, r *Record) error {
		return r.Advance(func(m *Migration) *Migration {
			m.Step, m.Changed, m.Stopped = MigrationDone, now(), note
			m.New, m.Before = nil, nil
			return m
		})
	})
}

// FinishReturn is FinishMigration for a migration that brought back the PV of
// the one before: nothing is kept of either.
func (p *Pool) FinishReturn(name string) error {
	return p.migrate("finish the migration of volume", name, "finish", func(_ *handle, r *Record) error {
		return r.Advance(func(*Migration) *Migration { return nil })
	})
}

// CancelMigration gives a migration up: the journal is as before it began. The
// caller has seen that the old PV is there and goes on being the volume's. The
// error is ErrConflict where no migration is under way.
func (p *Pool) CancelMigration(name string) error {
	return p.migrate("cancel the migration of volume", name, "cancel", func(_ *handle, r *Record) error {
		return r.Advance(func(m *Migration) *Migration { return m.Before })
	})
}

// StopMigration notes why a migration does not go on, or with "" that it does.
// It does nothing where that is noted already. The error is ErrConflict where no
// migration is under way.
func (p *Pool) StopMigration(name, why string) error {
	return p.migrate("stop the migration of volume", name, "stop", func(_ *handle, r *Record) error {
		return r.Advance(func(m *Migration) *Migration {
			m.Stopped = why
			return m
		})
	})
}

// migrate changes a record's journal and nothing else of it.
func (p *Pool) migrate(op, name, step string, change func(*handle, *Record) error) error {
	return p.on(op, name, func(h *handle) error {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		before := r
		if err := change(h, &r); err != nil {
			return err
		}
		if r.Migration == before.Migration {
			return nil
		}
		p.step("migrate." + step)
		return p.put(h, r)
	})
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }
