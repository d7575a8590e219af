package volume_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

var journal = record.Migration{To: "csi", Old: []byte(`{"metadata":{"name":"pv-v"}}`), New: []byte(`{}`)}

func begin(p *volume.Pool) error   { return beginAs(p, "v", journal) }
func cutOver(p *volume.Pool) error { return p.AdvanceMigration("v", record.CutOver()) }
func cancel(p *volume.Pool) error  { return p.AdvanceMigration("v", record.CancelMigration()) }
func finish(p *volume.Pool) error  { return p.AdvanceMigration("v", record.FinishMigration("uid", "")) }
func stop(p *volume.Pool, why string) error {
	return p.AdvanceMigration("v", record.StopMigration(why))
}

func beginAs(p *volume.Pool, name string, m record.Migration) error {
	_, err := p.BeginMigration(name, m)
	return err
}

// bound is a pool with the bound volume "v".
func bound(t *testing.T) *volume.Pool {
	t.Helper()
	p := newPool(t)
	create(t, p, "v")
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	return p
}

func journalOf(t *testing.T, p *volume.Pool) *record.Migration {
	t.Helper()
	v, err := p.Get("v")
	ok(t, err)
	return v.Migration
}

// reopened is the same pool in another process.
func reopened(t *testing.T, p *volume.Pool) *volume.Pool {
	t.Helper()
	ok(t, p.Close())
	return opened(t, volume.Config{Path: p.Path()})
}

func TestMigration(t *testing.T) {
	p := bound(t)
	ok(t, begin(p))
	is(t, begin(p), volume.ErrMigrating)
	p = reopened(t, p)
	m := journalOf(t, p)
	if m.Step != record.MigrationPrepared || !strings.Contains(string(m.Old), "pv-v") || m.New == nil || m.Began.IsZero() || m.Finished() != nil {
		t.Errorf("journal %+v", m)
	}
	ok(t, cutOver(p))
	ok(t, cutOver(p))
	ok(t, stop(p, "somebody has the name"))
	p = reopened(t, p)
	if m := journalOf(t, p); m.Step != record.MigrationCutover || m.Stopped != "somebody has the name" {
		t.Errorf("journal %+v", m)
	}
	report, err := inspect.Read(p.Path())
	ok(t, err)
	if m := report.Volumes[0].Migration; m == nil || m.To != "csi" || m.Stopped == "" {
		t.Errorf("inspect says %+v", m)
	}
	open, err := p.Migrations()
	if err != nil || len(open) != 1 || open[0].Name != "v" {
		t.Errorf("migrations %+v, %v", open, err)
	}
	ok(t, finish(p))
	is(t, cutOver(p), volume.ErrConflict)
	is(t, stop(p, "x"), volume.ErrConflict)
	p = reopened(t, p)
	if m := journalOf(t, p); m.Finished() != m || m.Stopped != "" || m.New != nil || !strings.Contains(string(m.Old), "pv-v") {
		t.Errorf("journal %+v, want the old PV alone", m)
	}
	consistent(t, p)
}

// Until it is over, nothing can remove the data: both PVs may be missing.
func TestMigrationKeepsTheVolume(t *testing.T) {
	p := bound(t)
	write(t, filepath.Join(p.Path(), "v/data"), "precious")
	ok(t, begin(p))
	is(t, p.Delete("v"), volume.ErrMigrating)
	ok(t, cutOver(p))
	p = reopened(t, p)
	is(t, p.Delete("v"), volume.ErrMigrating)
	if !there(filepath.Join(p.Path(), "v/data")) {
		t.Error("the data is gone")
	}
	ok(t, finish(p))
	ok(t, p.Delete("v"))
}

// The way back is a migration that takes the first one's place; given up, the first one's journal
// is there again.
func TestMigrationBack(t *testing.T) {
	p := bound(t)
	ok(t, errors.Join(begin(p), cutOver(p), finish(p)))
	back := record.Migration{To: "hostpath", Old: []byte(`{"back":true}`), New: []byte(`{}`)}
	ok(t, beginAs(p, "v", back))
	ok(t, cancel(p))
	p = reopened(t, p)
	if m := journalOf(t, p); m == nil || m.To != "csi" || m.Step != record.MigrationDone || !strings.Contains(string(m.Old), "pv-v") {
		t.Fatalf("journal %+v, want the first one's", m)
	}
	ok(t, errors.Join(beginAs(p, "v", back), cutOver(p), p.AdvanceMigration("v", record.FinishReturn("back", true))))
	p = reopened(t, p)
	if m := journalOf(t, p); m != nil {
		t.Errorf("journal %+v, want none", m)
	}
}

func TestMigrationRefused(t *testing.T) {
	p := newPool(t)
	is(t, begin(p), volume.ErrNotFound)
	create(t, p, "v")
	is(t, begin(p), volume.ErrConflict) // no PV was seen
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	is(t, beginAs(p, "v", record.Migration{Old: make([]byte, 1<<20)}), volume.ErrInvalid)
	// Each entry of a list gets a line, so these PVs are several times as large in the record.
	many := []byte(`{"list":[` + strings.Repeat(`"a",`, 30000) + `"a"]}`)
	is(t, beginAs(p, "v", record.Migration{To: "csi", Old: many, New: many}), volume.ErrInvalid)
	if v, err := p.Get("v"); err != nil || v.Migration != nil {
		t.Errorf("a refused journal is kept: %v", err)
	}
	ok(t, begin(p))
	ok(t, cancel(p))
	is(t, cancel(p), volume.ErrConflict)
	is(t, finish(p), volume.ErrConflict)
	is(t, p.AdvanceMigration("w", record.CutOver()), volume.ErrNotFound)
	if open, err := p.Migrations(); err != nil || len(open) > 0 {
		t.Errorf("migrations %+v, %v", open, err)
	}
}
