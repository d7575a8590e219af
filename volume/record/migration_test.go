package record

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Each change of a journal, from each step: what it writes, and whether the record goes.
func TestMigrationChange(t *testing.T) {
	began, now := time.Unix(1, 0), time.Unix(2, 0)
	first := &Migration{Step: MigrationDone, Old: []byte("0"), Changed: began}
	prepared := Migration{Step: MigrationPrepared, To: "csi", Old: []byte("1"), New: []byte("2"), Changed: began}
	with := func(change func(*Migration)) *Migration {
		m := prepared
		change(&m)
		return &m
	}
	open := with(func(*Migration) {})
	second := with(func(m *Migration) { m.Before = first })
	adopted := with(func(m *Migration) { m.Adopted = true })
	adoptedBefore := with(func(m *Migration) { m.Adopted, m.Before = true, first })
	stopped := with(func(m *Migration) { m.Stopped = "full" })
	cut := with(func(m *Migration) { m.Step, m.Changed = MigrationCutover, now })
	cutStopped := with(func(m *Migration) { m.Step, m.Stopped, m.Changed = MigrationCutover, "why", now })
	done := with(func(m *Migration) { m.Step, m.New, m.Stopped, m.Changed = MigrationDone, nil, "note", now })
	a, b := func(m *Migration) Record { return Record{PVUID: "a", Migration: m} }, Record{PVUID: "b"}
	for name, row := range map[string]struct {
		before Record
		by     MigrationChange
		want   Record
		remove bool
	}{
		"cutover":              {a(stopped), CutOver(), a(cut), false},
		"cutover again":        {a(cutStopped), CutOver(), a(cutStopped), false},
		"stop":                 {a(cut), StopMigration("why"), a(cutStopped), false},
		"continue":             {a(stopped), StopMigration(""), a(open), false},
		"finish":               {a(second), FinishMigration("b", "note"), Record{PVUID: "b", Migration: done}, false},
		"return":               {a(second), FinishReturn("b", true), b, false},
		"return, adopted":      {a(adopted), FinishReturn("b", true), b, true},
		"return, adopted, own": {a(adopted), FinishReturn("b", false), b, false},
		"cancel":               {a(second), CancelMigration(), a(first), false},
		"cancel, adopted":      {a(adopted), CancelMigration(), a(nil), true},
		"cancel, not adopted":  {a(open), CancelMigration(), a(nil), false},
		"cancel, with another": {a(adoptedBefore), CancelMigration(), a(first), false},
		"cancel, has a quota":  {Record{QuotaID: 7, Migration: adopted}, CancelMigration(), Record{QuotaID: 7}, false},
	} {
		was := *row.before.Migration
		got, remove, err := row.by.Apply(row.before, now)
		if err != nil || remove != row.remove || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %+v, journal %+v, remove %v, %v", name, got, got.Migration, remove, err)
		}
		if !reflect.DeepEqual(*row.before.Migration, was) {
			t.Errorf("%s: the journal was changed and not replaced: %+v", name, row.before.Migration)
		}
		// A change that a record has already is recognised by comparing the records.
		if again, _, err := row.by.Apply(got, now); err == nil && again != got {
			t.Errorf("%s: it changes the record again: %+v", name, again)
		}
	}
	for _, m := range []*Migration{nil, first} {
		for _, by := range []MigrationChange{CutOver(), StopMigration("x"), FinishMigration("u", ""),
			FinishReturn("u", true), CancelMigration()} {
			if r, remove, err := by.Apply(Record{Migration: m}, now); !errors.Is(err, fault.ErrConflict) || remove || r.Migration != m {
				t.Errorf("%s of %+v: %v, remove %v", by.Step, m, err, remove)
			}
		}
	}
}
