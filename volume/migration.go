package volume

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// BeginMigration begins to replace the PV of a volume by another PV of the same directory. It
// writes a journal with To, Old and New of the given one, and returns the record with it. Until the
// migration is over, also after a restart, calls that would delete the volume, or transfer it to
// another claim, return ErrMigrating. It checks the volume's directory and does not change it.
//
// The error is ErrNotFound if the volume or its directory is not there, ErrConflict or ErrInUse if
// something else is in the directory's place, ErrInUse while a clone of it is made, ErrConflict if no PV was seen yet, ErrMigrating if
// the volume is being migrated already, ErrInvalid if the PVs are too long to be read again.
func (p *Pool) BeginMigration(name string, m record.Migration) (record.Record, error) {
	return resultOf(p.withVolume, "begin the migration of volume", name, func(c *call) (record.Record, error) {
		r, ok := p.records.Get(name)
		switch {
		case !ok || !r.InPlace():
			return r, ErrNotFound
		case r.Migrating() != nil:
			return r, ErrMigrating
		case p.clones.unread(name) != nil:
			return r, p.clones.unread(name)
		case r.State != record.Bound || r.Ephemeral:
			return r, fmt.Errorf("%w: no PV names it", ErrConflict)
		}
		m.Adopted = r.Migration != nil && r.Migration.Adopted
		return p.putJournal(c, "migrate.begin", r, m)
	})
}

// AdoptMigrating is Adopt and BeginMigration in one write, so that nothing is left of a
// volume that is adopted only because its PV is migrated: CancelMigration removes the record,
// and so may FinishReturn. The error is ErrConflict if there is a record.
func (p *Pool) AdoptMigrating(s Spec, m record.Migration) (record.Record, error) {
	return resultOf(p.withVolume, "adopt volume", s.Name, func(c *call) (record.Record, error) {
		if r, ok := p.records.Get(s.Name); ok {
			return r, recordedFor(r, s.Owner, s.PV)
		}
		if err := adoptable(c, s.Name); err != nil {
			return record.Record{}, err
		}
		m.Adopted = true
		return p.putJournal(c, "adopt.record", p.adoptedRecord(s), m)
	})
}

// putJournal checks the volume's directory, and writes the record with the journal.
func (p *Pool) putJournal(c *call, step string, r record.Record, m record.Migration) (record.Record, error) {
	if err := c.CheckPlain(r.Name); err != nil {
		return r, err
	}
	m = record.Migration{To: m.To, Old: m.Old, New: m.New, Adopted: m.Adopted, Began: now()}
	m.Changed = m.Began
	if err := r.Begin(m); err != nil {
		return r, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return r, p.putFirst(c, step, r)
}

// AdvanceMigration changes the journal of a volume whose PV is being replaced, and at its end the
// UID of the volume's PV, or removes the record. It does nothing if the record has the change.
//
// The error is ErrNotFound if there is no volume, ErrConflict if it is not being migrated.
func (p *Pool) AdvanceMigration(name string, by record.MigrationChange) error {
	return p.withVolume(by.Op, name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		next, remove, err := by.Apply(r, now())
		switch {
		case err != nil || next == r:
			return err
		case !remove:
			return p.putFirst(c, "migrate."+by.Step, next)
		}
		if err := p.begin(c, "migrate."+by.Step); err != nil {
			return err
		}
		return p.drop(c, name)
	})
}

// Migrations returns the records of the volumes whose PV is being replaced, by name.
func (p *Pool) Migrations() ([]record.Record, error) {
	return resultOf(p.withPool, "list migrations", p.path, func(*call) ([]record.Record, error) {
		return p.records.Sorted(func(r record.Record) bool { return r.InPlace() && r.Migrating() != nil }), nil
	})
}
