package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestBind(t *testing.T) {
	p := newPool(t)
	_, err := p.Bind("v", binding("v"))
	is(t, err, volume.ErrNotFound)
	create(t, p, "v")
	_, err = p.Bind("v", volume.Binding{})
	is(t, err, volume.ErrInvalid)
	for _, want := range []bool{true, false} {
		if changed, err := p.Bind("v", binding("v")); err != nil || changed != want {
			t.Errorf("changed %v, %v, want %v", changed, err, want)
		}
	}
	b := binding("v")
	b.ReclaimPolicy = "Retain"
	if changed, err := p.Bind("v", b); err != nil || !changed {
		t.Errorf("changed %v, %v", changed, err)
	}
	if r := onDisk(t, p, "v"); r.State != record.Bound || r.ReclaimPolicy != "Retain" {
		t.Errorf("on disk %+v", r)
	}
	for _, spoil := range []func(*volume.Binding){
		func(b *volume.Binding) { b.PV = "other" },
		func(b *volume.Binding) { b.Owner.UID = "other" },
	} {
		b := binding("v")
		spoil(&b)
		_, err := p.Bind("v", b)
		is(t, err, volume.ErrConflict)
	}
}

func TestBindFillsInWhatWasNotKnown(t *testing.T) {
	p := newPool(t)
	_, err := p.Create(volume.Spec{Name: "v", Bytes: 1})
	ok(t, err)
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	if r := onDisk(t, p, "v"); r.State != record.Creating {
		t.Errorf("%s is written by the call", r.State)
	}
	purge(t, p)
	s := spec("v", 1)
	if r := onDisk(t, p, "v"); r.PV != s.PV || r.Owner != s.Owner || r.Cluster != s.Cluster {
		t.Errorf("on disk %+v", r)
	}
	v, err := p.ByPV(s.PV)
	if err != nil || v.Name != "v" {
		t.Errorf("by PV: %+v, %v", v, err)
	}
}

func TestUndo(t *testing.T) {
	p := newPool(t)
	ok(t, p.RollBack("v"))
	v := create(t, p, "v")
	ok(t, p.RollBack("v"))
	if there(v.Path) {
		t.Error("the directory is still there")
	}
	consistent(t, p)

	create(t, p, "v")
	write(t, filepath.Join(v.Path, "data"), "x")
	is(t, p.RollBack("v"), fault.ErrNotEmpty)
	if r := onDisk(t, p, "v"); r.State != record.Ready {
		t.Errorf("on disk %+v", r)
	}
	consistent(t, p)

	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	is(t, p.RollBack("v"), volume.ErrConflict)

	ok(t, os.Remove(create(t, p, "lost").Path))
	ok(t, p.RollBack("lost"))
	consistent(t, p)
}

func TestDelete(t *testing.T) {
	p := newPool(t)
	v := create(t, p, "v")
	write(t, filepath.Join(v.Path, "a/b/data"), "x")
	for range 2 {
		ok(t, p.Delete("v"))
		consistent(t, p)
	}
	if _, err := p.Get("v"); !errors.Is(err, volume.ErrNotFound) {
		t.Error(err)
	}
	entries := names(t, filepath.Join(p.Path(), trash))
	if len(entries) != 2 || entries[0]+".json" != entries[1] {
		t.Fatalf("trash %v", entries)
	}
	if !there(filepath.Join(p.Path(), trash, entries[0], "a/b/data")) {
		t.Error("the data is gone before the purge")
	}
	create(t, p, "v") // the name is free at once
	purge(t, p)
	consistent(t, p)
}

func TestDeleteNeverFollows(t *testing.T) {
	p := newPool(t)
	outside := filepath.Join(t.TempDir(), "precious")
	write(t, outside, "x")
	v := create(t, p, "v")
	for _, put := range []func() error{
		func() error { return os.Symlink(filepath.Dir(outside), v.Path) },
		func() error { return os.WriteFile(v.Path, nil, 0o600) },
	} {
		ok(t, os.RemoveAll(v.Path))
		ok(t, put())
		is(t, p.Delete("v"), volume.ErrConflict)
		is(t, p.RollBack("v"), volume.ErrConflict)
		_, err := p.Create(spec("v", gib))
		is(t, err, volume.ErrConflict)
		if !there(outside) || !there(v.Path) {
			t.Error("something was removed")
		}
	}
	ok(t, os.Remove(v.Path))
	ok(t, p.Delete("v"))
	consistent(t, p)
}

// If the requested size is not known, nothing is allocated, and the data
// is not the volume's.
func TestAdoptWithoutPromise(t *testing.T) {
	p := newPool(t)
	before, err := p.Space()
	ok(t, err)
	write(t, filepath.Join(p.Path(), "v/data"), "x")
	_, err = p.Adopt(spec("v", 0))
	ok(t, err)
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	v, err := p.Get("v")
	if err != nil || v.Bytes != 0 || v.State != record.Bound || len(p.Damaged()) > 0 {
		t.Errorf("%+v, %v, damaged %q", v, err, p.Damaged())
	}
	if after, err := p.Space(); err != nil || after.Allocated != before.Allocated || after.Used != 0 {
		t.Errorf("before %+v, after %+v, %v", before, after, err)
	}
	ok(t, p.Delete("v"))
}

func TestAdopt(t *testing.T) {
	p := newPool(t)
	_, err := p.Adopt(spec("v", gib))
	is(t, err, volume.ErrNotFound)
	write(t, filepath.Join(p.Path(), "v/data"), "x")
	write(t, filepath.Join(p.Path(), "file"), "x")
	ok(t, os.Symlink("v", filepath.Join(p.Path(), "link")))
	for _, name := range []string{"file", "link"} {
		_, err := p.Adopt(spec(name, gib))
		is(t, err, volume.ErrConflict)
	}
	_, err = p.Adopt(spec("v", -1))
	is(t, err, volume.ErrInvalid)
	// The data is there: more than the disk holds is adopted all the same.
	for range 2 {
		v, err := p.Adopt(spec("v", 1<<60))
		if err != nil || v.State != record.Bound || !v.Adopted || v.Missing {
			t.Errorf("adopted %+v, %v", v, err)
		}
	}
	s := spec("v", gib)
	s.Owner.UID = "other"
	_, err = p.Adopt(s)
	is(t, err, volume.ErrConflict)
	if !there(filepath.Join(p.Path(), "v/data")) {
		t.Error("the data is gone")
	}
}

// What was adopted for a migration is given back in one write: nothing is left of it but the
// directory. What was adopted before stays recorded.
func TestAdoptToMigrate(t *testing.T) {
	for name, row := range map[string]struct {
		before bool // it was adopted before
		end    func(*volume.Pool) error
		stays  bool
	}{
		"cancelled":         {false, cancel, false},
		"there, and back":   {false, thereAndBack(true), false},
		"back, and ours":    {false, thereAndBack(false), true},
		"there":             {false, finish, true},
		"back is cancelled": {false, func(p *volume.Pool) error { return errors.Join(finish(p), begin(p), cancel(p)) }, true},
		"before, cancelled": {true, cancel, true},
		"before, and back":  {true, thereAndBack(true), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t)
			before, err := p.Space()
			ok(t, err)
			_, err = p.AdoptMigrating(spec("v", mib), journal)
			is(t, err, volume.ErrNotFound)
			write(t, filepath.Join(p.Path(), "v/data"), "x")
			if row.before {
				_, err = p.Adopt(spec("v", mib))
				ok(t, err)
				_, err = p.AdoptMigrating(spec("v", mib), journal)
				is(t, err, volume.ErrConflict)
				ok(t, begin(p))
			} else {
				_, err = p.AdoptMigrating(spec("v", mib), record.Migration{Old: make([]byte, 1<<20)})
				is(t, err, volume.ErrInvalid)
				_, err = p.AdoptMigrating(spec("v", mib), journal)
				ok(t, err)
			}
			p = reopened(t, p)
			is(t, p.Delete("v"), volume.ErrMigrating)
			ok(t, row.end(p))
			for range 2 {
				_, err = p.Get("v")
				if row.stays {
					ok(t, err)
				} else {
					is(t, err, volume.ErrNotFound)
				}
				want := before.Allocated
				if row.stays {
					want += mib
				}
				if after, err := p.Space(); err != nil || after.Allocated != want {
					t.Errorf("allocated %d, want %d, %v", after.Allocated, want, err)
				}
				p = reopened(t, p)
			}
			if !there(filepath.Join(p.Path(), "v/data")) {
				t.Error("the data is gone")
			}
		})
	}
}

// thereAndBack finishes a migration, and one back.
func thereAndBack(forget bool) func(*volume.Pool) error {
	return func(p *volume.Pool) error {
		return errors.Join(finish(p), begin(p), p.AdvanceMigration("v", record.FinishReturn("back", forget)))
	}
}
