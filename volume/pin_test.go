package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

func TestPin(t *testing.T) {
	p := newPool(t)
	v := create(t, p, "v")
	write(t, filepath.Join(v.Path, "file"), "")
	deleted := make(chan error, 1)
	ok(t, p.Pin("v", func(pinned volume.Pinned) error {
		if pinned.Name != "v" || pinned.Path != v.Path || len(pinned.MountedAt) != 0 {
			t.Errorf("pinned %+v", pinned)
		}
		at, err := pinned.Dir.Stat()
		ok(t, err)
		want, err := os.Stat(v.Path)
		ok(t, err)
		if !os.SameFile(at, want) {
			t.Error("the descriptor is of another directory")
		}
		go func() { deleted <- p.Delete("v") }()
		select {
		case err := <-deleted:
			t.Errorf("deleted while pinned: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		return nil
	}))
	ok(t, <-deleted)
	is(t, p.Pin("v", nil), volume.ErrNotFound)
}

func TestPinRefuses(t *testing.T) {
	p := newPool(t)
	create(t, p, "gone")
	ok(t, os.Remove(filepath.Join(p.Path(), "gone")))
	is(t, p.Pin("gone", nil), volume.ErrNotFound)

	create(t, p, "link")
	ok(t, os.Remove(filepath.Join(p.Path(), "link")))
	ok(t, os.Symlink("/etc", filepath.Join(p.Path(), "link")))
	is(t, p.Pin("link", nil), volume.ErrConflict)

	mkdir(t, filepath.Join(p.Path(), "unrecorded"))
	is(t, p.Pin("unrecorded", nil), volume.ErrNotFound)
	is(t, p.Pin("../x", nil), volume.ErrInvalid)

	create(t, p, "v")
	cause := errors.New("cause")
	is(t, p.Pin("v", func(volume.Pinned) error { return cause }), cause)
}

func TestEphemeralIsRecorded(t *testing.T) {
	p := newPool(t)
	s := spec("csi-1", gib)
	s.Ephemeral = true
	for range 2 {
		v, err := p.Create(s)
		ok(t, err)
		if !v.Ephemeral || !onDisk(t, p, "csi-1").Ephemeral {
			t.Errorf("%+v", v)
		}
	}
	s.Ephemeral = false
	_, err := p.Create(s)
	is(t, err, volume.ErrConflict)
	consistent(t, p)
}

func TestRememberedWithoutTheDisk(t *testing.T) {
	p := newPool(t)
	create(t, p, "v")
	ok(t, os.Rename(p.Path(), p.Path()+".away"))
	if _, err := p.Get("v"); err == nil {
		t.Fatal("the pool is ready")
	}
	if r, known := p.Cached("v"); !known || r.Name != "v" {
		t.Errorf("%+v, %v", r, known)
	}
	if _, known := p.Cached("w"); known {
		t.Error("w was never there")
	}
}
