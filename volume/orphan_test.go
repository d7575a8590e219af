package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestNoteOrphan(t *testing.T) {
	c := volume.Config{Path: filepath.Join(t.TempDir(), "pool")}
	p := opened(t, c)
	create(t, p, "a")
	_, err := p.Bind("a", binding("a"))
	ok(t, err)
	synctest.Test(t, func(t *testing.T) {
		first, err := p.NoteOrphan("a", "the PV is gone", time.Hour)
		ok(t, err)
		if want := time.Now().UTC(); !first.Orphan.Since.Equal(want) || first.Orphan.Watched() != 0 || first.Orphan.Why != "the PV is gone" {
			t.Errorf("noted %+v, want %v", first.Orphan, want)
		}
		time.Sleep(time.Hour)
		again, err := p.NoteOrphan("a", "the PV is gone", 999*time.Millisecond)
		ok(t, err)
		if again.Orphan != first.Orphan {
			t.Errorf("the same reason: %+v, want %+v", again.Orphan, first.Orphan)
		}
		for range 2 {
			again, err = p.NoteOrphan("a", "the PV is gone", 1999*time.Millisecond)
			ok(t, err)
		}
		if again.Orphan.Watched() != 2*time.Second || again.Orphan.Since != first.Orphan.Since {
			t.Errorf("watched for a second twice: %+v, want since %v", again.Orphan, first.Orphan.Since)
		}
		other, err := p.NoteOrphan("a", "the claim is gone too", time.Minute)
		ok(t, err)
		if got := other.Orphan.Since.Sub(first.Orphan.Since); got != time.Hour || other.Orphan.Watched() != 0 {
			t.Errorf("another reason counts from %v after the first, watched for %v; want an hour, and not yet", got, other.Orphan.Watched())
		}
		_, err = p.NoteOrphan("a", "the claim is gone too", time.Minute)
		ok(t, err)
	})
	p.Close()
	noted := onDisk(t, p, "a").Orphan
	p = opened(t, c)
	v, err := p.Get("a")
	ok(t, err)
	if v.Orphan != noted || v.Orphan.Why != "the claim is gone too" || v.Orphan.Watched() != time.Minute {
		t.Errorf("after a restart: %+v, want %+v", v.Orphan, noted)
	}
	if r, err := p.NoteOrphan("a", "", time.Hour); err != nil || r.Orphan != (record.Orphan{}) {
		t.Errorf("taken back: %+v, %v", r.Orphan, err)
	}
	_, err = p.NoteOrphan("b", "gone", 0)
	is(t, err, volume.ErrNotFound)
}

// A volume whose PV is seen is no orphan.
func TestBindTakesTheNoteBack(t *testing.T) {
	p := newPool(t)
	create(t, p, "a")
	_, err := p.Bind("a", binding("a"))
	ok(t, err)
	_, err = p.NoteOrphan("a", "the PV is gone", 0)
	ok(t, err)
	changed, err := p.Bind("a", binding("a"))
	ok(t, err)
	if got := onDisk(t, p, "a"); !changed || got.Orphan != (record.Orphan{}) || got.State != record.Bound {
		t.Errorf("changed %v, record %+v", changed, got)
	}
}

func TestDeleteIf(t *testing.T) {
	p := newPool(t)
	v := create(t, p, "a")
	stays := errors.New("it stays")
	err := p.DeleteIf("a", func(r volume.Volume) error {
		if r.Name != "a" || r.Owner.UID != "uid-a" {
			t.Errorf("asked about %+v", r)
		}
		return stays
	})
	is(t, err, stays)
	if !there(v.Path) || len(names(t, filepath.Join(p.Path(), trash))) > 0 {
		t.Error("it did not stay")
	}
	ok(t, p.DeleteIf("a", func(volume.Volume) error { return nil }))
	if there(v.Path) {
		t.Error("it is still there")
	}
	ok(t, p.DeleteIf("a", func(volume.Volume) error { return stays })) // is gone
}

func TestUnrecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	p := opened(t, volume.Config{Path: path, Inner: []string{"csi"}})
	create(t, p, "a")
	for _, name := range []string{"data", "b", "csi", ".hidden", "lost+found", "inner/" + private} {
		mkdir(t, filepath.Join(path, name))
	}
	write(t, filepath.Join(path, "file"), "")
	write(t, filepath.Join(path, records, "broken"), "{")
	mkdir(t, filepath.Join(path, "broken"))
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: path, Inner: []string{"csi"}})
	all, err := p.Unrecorded()
	ok(t, err)
	if want := []volume.Unrecorded{{Name: "b"}, {Name: "data"}}; !slices.Equal(all, want) {
		t.Errorf("unrecorded %+v, want %+v", all, want)
	}
	r, err := inspect.Read(path)
	ok(t, err)
	// It knows no configuration.
	if want := []inspect.Unrecorded{{Name: "b"}, {Name: "csi"}, {Name: "data"}}; !slices.Equal(r.Unrecorded, want) {
		t.Errorf("inspect: %+v, want %+v", r.Unrecorded, want)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "none": false, "file": false} {
		if got, err := p.HasDirectory(name); err != nil || got != want {
			t.Errorf("directory %s: %v, %v", name, got, err)
		}
	}
}

// If the PV of an orphan was seen since the pool was opened, its last policy is known; otherwise
// the record notes for good that it is not.
func TestUnseenOrphan(t *testing.T) {
	noted := func(t *testing.T, p *volume.Pool, why string) bool {
		t.Helper()
		r, err := p.NoteOrphan("a", why, 0)
		ok(t, err)
		return r.Orphan.Unseen
	}
	bind := func(t *testing.T, p *volume.Pool) {
		t.Helper()
		_, err := p.Bind("a", binding("a"))
		ok(t, err)
	}
	c := volume.Config{Path: filepath.Join(t.TempDir(), "pool")}
	p := opened(t, c)
	create(t, p, "a")
	if noted(t, p, "no PV was saved") {
		t.Error("a volume without a PV is noted as unseen")
	}
	bind(t, p)
	if noted(t, p, "gone") {
		t.Error("seen, and noted as unseen")
	}
	p = reopened(t, p)
	if noted(t, p, "gone, and the claim") {
		t.Error("seen before the note, and noted as unseen after a restart")
	}
	bind(t, p) // the PV is back, and seen by this process alone
	p = reopened(t, p)
	for _, why := range []string{"gone", "gone, and the claim", "gone"} {
		if !noted(t, p, why) {
			t.Errorf("%s: not seen since the pool was opened, and not noted", why)
		}
		p = reopened(t, p)
	}
	bind(t, p)
	if noted(t, p, "gone") {
		t.Error("seen again, and noted as unseen")
	}
	for range 2 { // noted before, then after
		ok(t, p.Unsee("a"))
		if !noted(t, p, "gone") || !onDisk(t, p, "a").Orphan.Unseen {
			t.Error("the PV went unseen, and that is not noted")
		}
		bind(t, p)
		ok(t, p.Unsee("a"))
	}
	bind(t, p)
	is(t, p.Unsee("b"), volume.ErrNotFound)
	// The disk goes and comes back.
	bind(t, p)
	away := p.Path() + "-away"
	ok(t, os.Rename(p.Path(), away))
	is(t, p.Ready(), volume.ErrNotReady)
	ok(t, os.Rename(away, p.Path()))
	ok(t, p.Open())
	if !noted(t, p, "gone") {
		t.Error("the PV went while the disk was away, and that is not noted")
	}
	consistent(t, p)
}

// A policy is recorded without the PV: the note stays, and the PV was not seen.
func TestRecordPolicy(t *testing.T) {
	p := newPool(t)
	create(t, p, "a")
	_, err := p.Bind("a", binding("a"))
	ok(t, err)
	purge(t, p) // writes the record
	p = reopened(t, p)
	noted, err := p.NoteOrphan("a", "the PV is gone", 0)
	ok(t, err)
	is(t, p.RecordPolicy("a", "another", "Retain"), volume.ErrConflict)
	is(t, p.RecordPolicy("b", noted.PV, "Retain"), volume.ErrNotFound)
	for range 2 {
		ok(t, p.RecordPolicy("a", noted.PV, "Retain"))
	}
	want := noted
	want.ReclaimPolicy = "Retain"
	if got := onDisk(t, p, "a"); got != want || !got.Orphan.Unseen {
		t.Errorf("recorded\n%+v, want\n%+v", got, want)
	}
	other, err := p.NoteOrphan("a", "the claim is gone too", 0)
	ok(t, err)
	if !other.Orphan.Unseen {
		t.Error("the PV counts as seen")
	}
}

// A deletion that was begun proves nothing about the policy that the PV has when it goes.
func TestSetAsideIsUnseen(t *testing.T) {
	for _, seen := range []bool{true, false} {
		p := newPool(t)
		create(t, p, "a")
		_, err := p.Bind("a", binding("a"))
		ok(t, err)
		purge(t, p) // writes the record
		r := onDisk(t, p, "a")
		ok(t, p.Close())
		ok(t, os.Rename(filepath.Join(p.Path(), "a"), filepath.Join(p.Path(), ".hostpath-provisioner/trash", r.Trash)))
		p = opened(t, volume.Config{Path: p.Path()})
		if seen {
			ok(t, p.Restore("a"))
			_, err := p.Bind("a", binding("a"))
			ok(t, err)
		}
		if r, err := p.NoteOrphan("a", "the PV is gone", 0); err != nil || r.Orphan.Unseen == seen {
			t.Errorf("seen: %v, noted %+v, %v", seen, r.Orphan, err)
		}
	}
}
