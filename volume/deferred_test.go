package volume_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The power may go while a new record is on its way to the disk: its name is
// there, without content. No caller has the volume.
func TestRecordWithoutContent(t *testing.T) {
	path := founded(t)
	for name, content := range map[string]string{"empty": "", "zeros": strings.Repeat("\x00", 300), "torn": `{"version":1,"na`, "lost": ""} {
		write(t, filepath.Join(path, records, name), content)
	}
	mkdir(t, filepath.Join(path, staging, "empty"))
	mkdir(t, filepath.Join(path, "lost"))
	r, err := inspect.Read(path)
	if err != nil || len(r.Damaged) != 2 {
		t.Errorf("inspected: damaged %q, %v", r.Damaged, err)
	}
	p := opened(t, volume.Config{Path: path})
	if got := p.Damaged(); len(got) != 2 || !strings.Contains(got[0], "lost") || !strings.Contains(got[1], "torn") {
		t.Errorf("damaged %q", got)
	}
	for _, name := range []string{"empty", "zeros"} {
		ok(t, p.Delete(name)) // it is not there
		create(t, p, name)
	}
	if left := names(t, filepath.Join(path, records)); !slices.Contains(left, "lost") || !slices.Contains(left, "torn") {
		t.Errorf("left are %q", left)
	}
}

// A power cut leaves the record of a new volume empty, and in the trash a snapshot that was never a volume,
// from a copy before. The record is of no volume then, unless the entry may be one.
func TestRecordWithoutContentBesideASnapshot(t *testing.T) {
	const id = "WUCG7YHFJN3GUYH6V2T7VNWUEV"
	for entry, damaged := range map[string]int{id + record.SnapshotSuffix: 0, id: 1, "a copy" + record.SnapshotSuffix: 1} {
		path := founded(t)
		write(t, filepath.Join(path, records, "empty"), "")
		mkdir(t, filepath.Join(path, trash, entry))
		p := opened(t, volume.Config{Path: path})
		_, err := p.Purge(t.Context())
		if left := names(t, filepath.Join(path, trash)); len(p.Damaged()) != damaged || len(left) != damaged || (err == nil) != (damaged == 0) {
			t.Errorf("%s: damaged %q, left %q, %v", entry, p.Damaged(), left, err)
		}
		if damaged == 0 {
			create(t, p, "empty")
		}
	}
}

// Records are written together. One that cannot be written keeps no other from the disk, and
// stays in memory.
func TestLateRecords(t *testing.T) {
	p := newPool(t)
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, name := range all {
		create(t, p, name)
		if changed, err := p.Bind(name, binding(name)); err != nil || !changed {
			t.Fatalf("changed %v, %v", changed, err)
		}
	}
	stuck := filepath.Join(p.Path(), records, "d")
	ok(t, os.Rename(stuck, filepath.Join(t.TempDir(), "d")))
	mkdir(t, filepath.Join(stuck, "x"))
	if _, err := p.Purge(t.Context()); err == nil || !strings.Contains(err.Error(), "record d: ") {
		t.Errorf("it says %v", err)
	}
	for _, name := range all {
		if name != "d" && onDisk(t, p, name).State != record.Bound {
			t.Errorf("%s is %s on the disk", name, onDisk(t, p, name).State)
		}
	}
	if _, err := p.Expand("d", 2*gib); err == nil {
		t.Error("the record was written over a directory")
	}
	if v, err := p.Get("d"); err != nil || v.State != record.Bound || v.Bytes != gib {
		t.Errorf("%+v, %v", v, err)
	}
	ok(t, os.RemoveAll(stuck))
	purge(t, p)
	if r := onDisk(t, p, "d"); r.State != record.Bound || r.PV != "pv-d" {
		t.Errorf("on disk %+v", r)
	}
	consistent(t, p)
}

// Bind returns again, to the next process, what the last one did not write in time.
func TestLateBindIsRepeated(t *testing.T) {
	p := newPool(t)
	create(t, p, "v")
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	if v, err := p.Get("v"); err != nil || v.State != record.Ready {
		t.Errorf("%+v, %v", v, err)
	}
	if changed, err := p.Bind("v", binding("v")); err != nil || !changed {
		t.Errorf("changed %v, %v", changed, err)
	}
	purge(t, p)
	if r := onDisk(t, p, "v"); r.State != record.Bound {
		t.Errorf("on disk %+v", r)
	}
}
