package volume_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// What is on its way to or from the trash, is of a pod alone, or has no record that can be read, is no
// source. What came back is one, with the identity that it has then.
func TestCloneOfWhatIsNotInPlace(t *testing.T) {
	for _, row := range []struct {
		name  string
		made  func(s *volume.Spec)
		spoil func(t *testing.T, p *volume.Pool)
		want  error
		back  bool // it can be copied afterwards
	}{
		{"set aside", nil, func(t *testing.T, p *volume.Pool) {
			_, err := op{do: "set aside", name: "v"}.call(p, "")
			ok(t, err)
		}, volume.ErrSetAside, false},
		{"kept", kept, func(t *testing.T, p *volume.Pool) { ok(t, p.Delete("v")) }, volume.ErrNotFound, false},
		{"brought back", kept, func(t *testing.T, p *volume.Pool) {
			ok(t, p.Delete("v"))
			_, err := p.Undelete(keptID(p, "v"))
			ok(t, err)
		}, volume.ErrConflict, true},
		{"being brought back", kept, func(t *testing.T, p *volume.Pool) {
			ok(t, p.Delete("v"))
			_, err := p.Undelete(keptID(p, "v"))
			is(t, err, volume.ErrConflict)
		}, volume.ErrConflict, false},
		{"of a pod", func(s *volume.Spec) { s.Ephemeral = true }, func(*testing.T, *volume.Pool) {}, volume.ErrConflict, false},
		{"damaged", nil, func(t *testing.T, p *volume.Pool) { write(t, filepath.Join(p.Path(), records, "v"), "{") }, volume.ErrDamaged, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var inTheWay atomic.Bool
			c := keeping(volume.Config{Name: "pool", Path: filepath.Join(t.TempDir(), "pool")})
			c.Step = func(step string) {
				if step == "restore.rename" && inTheWay.Load() {
					_ = os.Mkdir(filepath.Join(c.Path, "v"), 0o700)
				}
			}
			p := opened(t, c)
			s := spec("v", gib)
			if row.made != nil {
				row.made(&s)
			}
			v, err := p.Create(s)
			ok(t, err)
			write(t, filepath.Join(v.Path, "data"), "of v")
			if !s.Ephemeral {
				_, err = p.Bind("v", binding("v"))
				ok(t, err)
			}
			purge(t, p)
			source := cloneOf(p, spec("c", gib))
			inTheWay.Store(row.name == "being brought back")
			row.spoil(t, p)
			ok(t, p.Close())
			p = opened(t, c)
			_, err = awaited(p, source)
			is(t, err, volume.ErrSource)
			is(t, err, row.want)
			if there(filepath.Join(p.Path(), "c")) || len(names(t, filepath.Join(p.Path(), staging))) > 0 || len(p.CloneJobs()) > 0 {
				t.Error("something is left of the copy")
			}
			if row.back {
				made, err := cloned(p, spec("c", gib))
				ok(t, err)
				if !there(filepath.Join(made.Path, "data")) {
					t.Error("the copy is empty")
				}
			}
		})
	}
}

// kept is a volume that stays for a while once it is deleted.
func kept(s *volume.Spec) { s.TrashRetention = keptSeconds }

// A pool may have another name at the next start, and its disk another place: its volumes are the same.
// A directory that was moved to another pool of the node, with its record, is another volume.
func TestCloneOfASourceThatMoved(t *testing.T) {
	p := newPool(t)
	sourceIn(t, p)
	purge(t, p)
	source := cloneOf(p, spec("c", gib))
	ok(t, p.Close())
	path := p.Path() + "-elsewhere"
	ok(t, os.Rename(p.Path(), path))
	p = opened(t, volume.Config{Name: "renamed", Path: path})
	_, err := awaited(p, source)
	ok(t, err)

	other := opened(t, volume.Config{Name: "other", Path: filepath.Join(t.TempDir(), "other")})
	source = cloneOf(p, spec("d", gib))
	ok(t, p.Close())
	ok(t, other.Close())
	for _, name := range []string{"v", records + "/v"} {
		ok(t, os.Rename(filepath.Join(path, name), filepath.Join(other.Path(), name)))
	}
	other = opened(t, volume.Config{Name: "other", Path: other.Path()})
	_, err = awaited(other, source)
	is(t, err, volume.ErrSource)
	is(t, err, volume.ErrConflict)
	r, _ := other.Cached("v")
	moved := record.SourceOf(other.ID(), r)
	source.Source = &moved
	_, err = awaited(other, source)
	ok(t, err)
	consistent(t, other)
}

// A copy that no PV had is of no use to anyone, however long its class keeps what is deleted.
func TestCloneThatNoPVHadIsNotKept(t *testing.T) {
	for name, end := range map[string]func(p *volume.Pool) error{
		"rolled back": func(p *volume.Pool) error { return p.RollBack("c") },
		"deleted":     func(p *volume.Pool) error { return p.Delete("c") },
	} {
		t.Run(name, func(t *testing.T) {
			p := opened(t, keeping(volume.Config{Name: "pool", Path: filepath.Join(t.TempDir(), "pool"), TrashRetention: time.Hour}))
			sourceIn(t, p)
			s := spec("c", gib)
			kept(&s)
			_, err := cloned(p, s)
			ok(t, err)
			ok(t, end(p))
			purge(t, p)
			if all := p.Kept(); len(all) > 0 || there(filepath.Join(p.Path(), "c")) || len(names(t, filepath.Join(p.Path(), trash))) > 0 {
				t.Errorf("kept: %+v", all)
			}
			consistent(t, p)
		})
	}
}
