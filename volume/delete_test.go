package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A deletion waits for the disk once: the directory's rename is enough. A record of an older
// program does not have the name in the trash, and gets it before.
func TestDeleteSteps(t *testing.T) {
	move := []string{"delete.rename", "delete.sync", "delete.move"}
	for _, row := range []struct {
		name  string
		known bool
		want  []string
	}{
		{"of this program", true, move},
		{"of an older program", false, append([]string{"delete.record", "record.write", "record.rename", "record.sync"}, move...)},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := bound(t)
			purge(t, p)
			r := onDisk(t, p, "v")
			ok(t, p.Close())
			if !row.known {
				r.Trash = ""
				recordFile(t, p.Path(), r)
			}
			var steps []string
			p = opened(t, volume.Config{Path: p.Path(), Step: func(step string) { steps = append(steps, step) }})
			steps = nil
			if ok(t, p.Delete("v")); !slices.Equal(steps, row.want) {
				t.Errorf("steps %q, want %q", steps, row.want)
			}
			purge(t, p)
			consistent(t, p)
		})
	}
}

// MayDelete has the error of DeleteIf, and deletes nothing.
func TestMayDeleteDeletesNothing(t *testing.T) {
	p := bound(t)
	wanted := errors.New("wanted")
	refuses := func(volume.Volume) error { return wanted }
	allows := func(volume.Volume) error { return nil }
	if err := p.MayDelete("v", refuses); !errors.Is(err, wanted) {
		t.Errorf("the caller refuses: %v", err)
	}
	ok(t, p.MayDelete("v", allows))
	ok(t, p.MayDelete("none", refuses)) // as Delete of a volume that is gone
	if _, err := p.Get("v"); err != nil || !there(filepath.Join(p.Path(), "v")) {
		t.Errorf("the volume: %v", err)
	}
	ok(t, os.Remove(filepath.Join(p.Path(), "v")))
	ok(t, os.WriteFile(filepath.Join(p.Path(), "v"), nil, 0o600))
	if may, err := p.MayDelete("v", allows), p.DeleteIf("v", allows); !errors.Is(may, volume.ErrConflict) || err.Error() != may.Error() {
		t.Errorf("MayDelete: %v; DeleteIf: %v", may, err)
	}
}

// While a volume is deleted, Get and HasDirectory agree that it is gone, although its directory is
// still in place.
func TestDeleteInProgress(t *testing.T) {
	var p *volume.Pool
	asked := false
	p = opened(t, volume.Config{Path: filepath.Join(t.TempDir(), "pool"), Step: func(step string) {
		if step != "delete.rename" {
			return
		}
		asked = true
		if !there(filepath.Join(p.Path(), "v")) {
			t.Error("the directory has moved already")
		}
		_, err := p.Get("v")
		is(t, err, volume.ErrNotFound)
		if got, err := p.HasDirectory("v"); got || err != nil {
			t.Errorf("has directory: %v, %v", got, err)
		}
	}})
	create(t, p, "v")
	if ok(t, p.Delete("v")); !asked {
		t.Error("no rename was seen")
	}
}

// A deletion that did not come about leaves the volume as it was.
func TestDeleteFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	aside := filepath.Join(t.TempDir(), "aside")
	away := false
	p := opened(t, volume.Config{Path: path, Step: func(step string) {
		if step == "delete.rename" && !away { // right after the check
			away = true
			ok(t, os.Rename(filepath.Join(path, "v"), aside))
		}
	}})
	create(t, p, "v")
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
	if err := p.Delete("v"); !errors.Is(err, os.ErrNotExist) || !away {
		t.Errorf("it says %v", err)
	}
	ok(t, os.Rename(aside, filepath.Join(path, "v")))
	for range 2 {
		if v, err := p.Get("v"); err != nil || v.State != record.Bound || v.Missing {
			t.Errorf("%+v, %v", v, err)
		}
		purge(t, p)
		consistent(t, p)
		p = reopened(t, p)
	}
}

// A volume that is in the trash is not shown as missing by any call. A directory that is put
// back with its record is the volume again.
func TestPutBackFromTheTrash(t *testing.T) {
	p := bound(t)
	purge(t, p)
	r := onDisk(t, p, "v")
	ok(t, p.Close())
	from, to := filepath.Join(p.Path(), trash, r.Trash), filepath.Join(p.Path(), "v")
	ok(t, os.Rename(to, from))
	if report, err := inspect.Read(p.Path()); err != nil || report.Volumes[0].State != record.Deleting || report.Space.Allocated != gib {
		t.Errorf("%+v, %v", report, err)
	}
	p = opened(t, volume.Config{Path: p.Path()})
	_, err := p.Get("v")
	is(t, err, volume.ErrSetAside)
	ok(t, os.Rename(from, to)) // while the agent runs
	ok(t, p.Recover())
	if v, err := p.Get("v"); err != nil || v.State != record.Bound || v.Missing {
		t.Errorf("%+v, %v", v, err)
	}
	consistent(t, p)
}
