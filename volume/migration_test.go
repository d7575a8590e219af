package volume_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

var journal = volume.Migration{To: "csi", Old: []byte(`{"metadata":{"name":"pv-v"}}`), New: []byte(`{}`)}

func begin(p *volume.Pool) error   { return p.BeginMigration("v", journal) }
func cutOver(p *volume.Pool) error { return p.CutOver("v") }

// bound is a pool with the bound volume "v".
func bound(t *testing.T) *volume.Pool {
	t.Helper()
	p := newPool(t)
	create(t, p, "v")
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	return p
}

func journalOf(t *testing.T, p *volume.Pool) *volume.Migration {
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
	if m.Step != volume.MigrationPrepared || !strings.Contains(string(m.Old), "pv-v") || m.New == nil || m.Began.IsZero() || !m.UnderWay() {
		t.Errorf("journal %+v", m)
	}
	ok(t, cutOver(p))
	ok(t, cutOver(p))
	ok(t, p.StopMigration("v", "somebody has the name"))
	p = reopened(t, p)
	if m := journalOf(t, p); m.Step != volume.MigrationCutover || m.Stopped != "somebody has the name" {
		t.Errorf("journal %+v", m)
	}
	report, err := inspect.Read(p.Path())
	ok(t, err)
	if m := report.Volumes[0].Migration; m == nil || m.To != "csi" || m.Stopped == "" {
		t.Errorf("inspect says %+v", m)
	}
	ok(t, p.FinishMigration("v", ""))
	is(t, cutOver(p), volume.ErrConflict)
	is(t, p.StopMigration("v", "x"), volume.ErrConflict)
	p = reopened(t, p)
	if m := journalOf(t, p); m.UnderWay() || m.Stopped != "" || m.New != nil || !strings.Contains(string(m.Old), "pv-v") {
		t.Errorf("journal %+v, want the old PV alone", m)
	}
	consistent(t, p)
}

// Until it is over, nothing can remove the data: neither PV may be there to tell whose it is.
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
	ok(t, p.FinishMigration("v", ""))
	ok(t, p.Delete("v"))
}

// The way back is a migration that takes the first one's place; given up, the first one's journal is there again.
func TestMigrationBack(t *testing.T) {
	p := bound(t)
	ok(t, errors.Join(begin(p), cutOver(p), p.FinishMigration("v", "")))
	back := volume.Migration{To: "hostpath", Old: []byte(`{"back":true}`), New: []byte(`{}`)}
	ok(t, p.BeginMigration("v", back))
	ok(t, p.CancelMigration("v"))
	p = reopened(t, p)
	if m := journalOf(t, p); m == nil || m.To != "csi" || m.Step != volume.MigrationDone || !strings.Contains(string(m.Old), "pv-v") {
		t.Fatalf("journal %+v, want the first one's", m)
	}
	ok(t, errors.Join(p.BeginMigration("v", back), cutOver(p), p.FinishReturn("v")))
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
	is(t, p.BeginMigration("v", volume.Migration{Old: make([]byte, 1<<20)}), volume.ErrInvalid)
	is(t, p.CancelMigration("v"), volume.ErrConflict)
	is(t, p.FinishMigration("v", ""), volume.ErrConflict)
}
