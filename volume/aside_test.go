package volume_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A caller that got ErrNotReady may have changed its mind when the disk answers: the deletion
// goes no further than the trash, after any other call, purge or start, until Delete is called
// again, or Restore.
func TestDeleteStopsWhenItsCallerHasLeft(t *testing.T) {
	for _, row := range []struct {
		at    string
		older bool // the record has no name in the trash yet
		moved bool // the directory is in the trash afterwards
	}{
		{at: "delete.rename", moved: true},
		{at: "delete.sync", moved: true},
		{at: "record.write", older: true},
		{at: "record.sync", older: true},
	} {
		for _, back := range []bool{true, false} {
			bubble(t, row.at, func(t *testing.T) {
				p, disk := newHanging(t, "frozen")
				ok(t, p.Open())
				write(t, filepath.Join(create(t, p, "v").Path, "data"), "precious")
				seenPV(t, p)
				purge(t, p)
				if row.older {
					r := onDisk(t, p, "v")
					ok(t, p.Close())
					r.Trash = ""
					recordFile(t, p.Path(), r)
					p = opened(t, volume.Config{Name: "frozen", Path: p.Path(), Patience: patience, Step: disk.step})
				}
				disk.hang(row.at)
				refused(t, p, "delete", patience+atOnce, func() error { return p.Delete("v") })
				disk.thaw()
				soon(t, "ready", p.Ready)
				for range 2 {
					_, err := p.Purge(t.Context())
					ok(t, err)
					ok(t, p.Recover())
					_, err = p.Get("v")
					if errors.Is(err, volume.ErrSetAside) != row.moved || err != nil != row.moved {
						t.Fatalf("get: %v, moved: %v", err, row.moved)
					}
					if len(p.SetAside()) > 0 != row.moved {
						t.Errorf("set aside: %+v", p.SetAside())
					}
					p = reopened(t, p)
				}
				stays := errors.New("the policy is Retain")
				is(t, p.DeleteIf("v", func(volume.Volume) error { return stays }), stays)
				if back {
					ok(t, p.Restore("v"))
					ok(t, p.Restore("v"))
					if v, err := p.Get("v"); err != nil || v.State != record.Bound || !there(filepath.Join(v.Path, "data")) {
						t.Errorf("%+v, %v", v, err)
					}
				} else {
					ok(t, p.Delete("v"))
				}
				purge(t, p)
				consistent(t, p)
			})
		}
	}
}

// Nothing works on a volume that is set aside, and its name and bytes stay taken.
func TestSetAside(t *testing.T) {
	path := founded(t)
	r := record.Record{Version: 1, Name: "v", State: record.Bound, Bytes: gib, PV: "pv-v", Trash: "GONE", Owner: spec("v", gib).Owner}
	recordFile(t, path, r)
	write(t, filepath.Join(path, trash, "GONE/data"), "precious")
	p := opened(t, volume.Config{Path: path, Name: "pool", Patience: patience})
	allowed := []string{"ready", "open", "list", "space", "uses", "unrecorded", "has directory", "adopt", "adopt to move", "adoptable", "create", "by PV", "usage",
		"delete", "settle", "measure", "purge", "note orphan", "noted paths", "note paths"}
	for name, call := range everyCall(p) {
		if slices.Contains(allowed, name) {
			continue
		}
		if err := call(); !errors.Is(err, volume.ErrSetAside) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := p.Create(spec("v", gib))
	is(t, err, volume.ErrConflict)
	if s, err := p.Space(); err != nil || s.Allocated != gib || p.States()[record.Deleting] != 1 {
		t.Errorf("%+v, %v, states %v", s, err, p.States())
	}
	if all, err := p.Unrecorded(); len(all) > 0 || err != nil {
		t.Errorf("unrecorded: %+v, %v", all, err)
	}
	ok(t, p.Restore("v"))
	if got := onDisk(t, p, "v"); got.Trash == "GONE" || got.Returning != "" || got.State != record.Bound {
		t.Errorf("recorded %+v", got)
	}
	consistent(t, p)
	is(t, p.Restore("w"), volume.ErrNotFound)
}

// A disk that needs longer for a flush than a caller waits gets its deletions done: what was
// flushed is not flushed again.
func TestDeleteOnASlowDisk(t *testing.T) { synctest.Test(t, deleteOnASlowDisk) }

func deleteOnASlowDisk(t *testing.T) {
	p, disk := newHanging(t, "slow")
	ok(t, p.Open())
	create(t, p, "v")
	seenPV(t, p)
	purge(t, p)
	disk.hang("delete.sync")
	refused(t, p, "delete", patience+atOnce, func() error { return p.Delete("v") })
	disk.thaw()
	soon(t, "ready", p.Ready)
	disk.hang("delete.sync") // it would not return in time again
	ok(t, p.Delete("v"))
	disk.thaw()
	purge(t, p)
	consistent(t, p)
}
