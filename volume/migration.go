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
	err := p.migrate("begin the migration of volume", name, "begin", func(c *call, r *record.Record) error {
		switch {
		case r.Held() != nil:
			return ErrMigrating
		case r.State != record.Bound || r.Ephemeral:
			return fmt.Errorf("%w: no PV names it", ErrConflict)
		}
		if err := c.CheckPlain(name); err != nil {
			return err
		}
		now, next := now(), *r
		next.Migration = &record.Migration{
			Step: record.MigrationPrepared, To: m.To, Old: m.Old, New: m.New, Before: r.Migration, Began: now, Changed: now,
		}
		if size := next.Size(); size > record.MaxSize {
			return fmt.Errorf("%w: with the old PV and the new one, of %d bytes, the record would have %d, at most %d fit",
				ErrInvalid, len(m.Old)+len(m.New), size, record.MaxSize)
		}
		*r = next
		return nil
	})
	if err != nil {
		return nil, err
	}
	r, _ := p.records.Get(name)
	return p.hold(r), nil
}

// Migrations returns the holds on volumes whose PV is being replaced, by name.
func (p *Pool) Migrations() ([]*migration.Hold, error) {
	return ask(p.enter, "list migrations", p.path, func(*call) (all []*migration.Hold, err error) {
		for _, r := range p.records.InPlace() {
			if r.Held() != nil {
				all = append(all, p.hold(r))
			}
		}
		return all, nil
	})
}

func (p *Pool) hold(r record.Record) *migration.Hold {
	return migration.New(r, func(op, step string, do func(*record.Record) error) error {
		return p.migrate(op, r.Name, step, func(_ *call, r *record.Record) error { return do(r) })
	})
}

// migrate changes a record's journal, and at its end the PV's UID.
func (p *Pool) migrate(op, name, step string, change func(*call, *record.Record) error) error {
	return p.on(op, name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		before := r
		if err := change(c, &r); err != nil {
			return err
		}
		if r.Migration == before.Migration {
			return nil
		}
		if err := p.begin(c, "migrate."+step); err != nil {
			return err
		}
		return p.put(c, r)
	})
}
