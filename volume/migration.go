package volume

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/migration"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// BeginMigration holds a volume while its PV is replaced. It writes a journal with To, Old
// and New of the given one. It checks the volume's directory and does not change it.
//
// The error is ErrNotFound if the volume or its directory is not there, ErrConflict or
// ErrInUse if something else is in the directory's place, ErrConflict if no PV was seen
// yet, ErrMigrating if the volume is held already, ErrInvalid if the PVs are too long to be
// read again.
func (p *Pool) BeginMigration(name string, m record.Migration) (*migration.Hold, error) {
	err := p.migrate("begin the migration of volume", name, "begin", func(c *call, r *record.Record) (bool, error) {
		switch {
		case r.Held() != nil:
			return false, ErrMigrating
		case r.State != record.Bound || r.Ephemeral:
			return false, fmt.Errorf("%w: no PV names it", ErrConflict)
		}
		return false, p.journal(c, r, m, r.Migration != nil && r.Migration.Adopted)
	})
	if err != nil {
		return nil, err
	}
	r, _ := p.records.Get(name)
	return p.hold(r), nil
}

// AdoptMigrating is Adopt and BeginMigration in one write, so that nothing is left of a
// volume that is adopted only because its PV is migrated: Release removes the record, and
// so may FinishReturn. The error is ErrConflict if there is a record.
func (p *Pool) AdoptMigrating(s Spec, m record.Migration) (*migration.Hold, error) {
	return resultOf(p.withVolume, "adopt volume", s.Name, func(c *call) (*migration.Hold, error) {
		if r, ok := p.records.Get(s.Name); ok {
			return nil, recordedFor(r, s.Owner, s.PV)
		}
		if err := adoptable(c, s.Name); err != nil {
			return nil, err
		}
		r := adoptedRecord(s)
		if err := p.journal(c, &r, m, true); err != nil {
			return nil, err
		}
		if err := p.begin(c, "adopt.record"); err != nil {
			return nil, err
		}
		if err := p.put(c, r); err != nil {
			return nil, err
		}
		return p.hold(r), nil
	})
}

// journal checks the volume's directory, and adds the journal to the record.
func (p *Pool) journal(c *call, r *record.Record, m record.Migration, adopted bool) error {
	if err := c.CheckPlain(r.Name); err != nil {
		return err
	}
	m = record.Migration{To: m.To, Old: m.Old, New: m.New, Adopted: adopted, Began: now()}
	m.Changed = m.Began
	if err := r.Begin(m); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// Migrations returns the holds on volumes whose PV is being replaced, by name.
func (p *Pool) Migrations() ([]*migration.Hold, error) {
	return resultOf(p.withPool, "list migrations", p.path, func(*call) (all []*migration.Hold, err error) {
		for _, r := range p.records.InPlace() {
			if r.Held() != nil {
				all = append(all, p.hold(r))
			}
		}
		return all, nil
	})
}

func (p *Pool) hold(r record.Record) *migration.Hold {
	return migration.New(r, func(op, step string, do func(*record.Record) (bool, error)) error {
		return p.migrate(op, r.Name, step, func(_ *call, r *record.Record) (bool, error) { return do(r) })
	})
}

// migrate changes a record's journal, and at its end the PV's UID, or removes the record
// if change asks for that.
func (p *Pool) migrate(op, name, step string, change func(*call, *record.Record) (remove bool, err error)) error {
	return p.withVolume(op, name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		before := r
		remove, err := change(c, &r)
		if err != nil || r.Migration == before.Migration {
			return err
		}
		if err := p.begin(c, "migrate."+step); err != nil {
			return err
		}
		if remove {
			return p.drop(c, name)
		}
		return p.put(c, r)
	})
}
