//go:build disk

package volume_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// unordered is ext4 without a journal: what is not flushed reaches the disk in any
// order, or not at all. A journal keeps the order of what was not flushed, and so
// hides a missing flush.
const unordered = "ext4 without a journal"

// onPowerlessDisk calls use with a pool's path on a disk, and then check with that
// on the disk as it is after the power went.
func onPowerlessDisk(t *testing.T, use func(t *testing.T, path string) *volume.Pool, check func(t *testing.T, path string)) {
	for _, kind := range append(testdisk.Kinds(), unordered) {
		t.Run(kind, func(t *testing.T) {
			var image string
			if kind == unordered {
				image = testdisk.Image(t, "ext4")
				testdisk.Run(t, "tune2fs", "-O", "^has_journal", image)
			} else {
				image = testdisk.Image(t, kind)
			}
			dir := t.TempDir()
			testdisk.Attach(t, image, dir)
			p := use(t, filepath.Join(dir, "pool"))
			after := cutOff(t, image)
			ok(t, p.Close())
			testdisk.Detach(t, dir)
			if kind == unordered {
				out, err := exec.Command("e2fsck", "-fy", after).CombinedOutput() // as a boot does
				if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 1 || err != nil && exit == nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			testdisk.Attach(t, after, dir)
			check(t, filepath.Join(dir, "pool"))
			testdisk.Detach(t, dir)
		})
	}
}

// The power goes after a start that found a new volume in its place, where the
// process before had put it and flushed nothing: a caller that got the volume finds it.
func TestDiskPowerAfterSettling(t *testing.T) {
	onPowerlessDisk(t, func(t *testing.T, path string) *volume.Pool {
		c := volume.Config{Path: path, EnableBtrfsQuota: true}
		p := opened(t, c)
		_, err := p.Create(spec("v", mib))
		ok(t, err)
		ok(t, p.Close())
		ok(t, os.Rename(filepath.Join(path, "v"), filepath.Join(path, staging, "v")))
		testdisk.Sync(t, path)
		ok(t, os.Rename(filepath.Join(path, staging, "v"), filepath.Join(path, "v")))
		p = opened(t, c)
		if r := onDisk(t, p, "v"); r.State != record.Ready {
			t.Fatalf("on disk %+v: it proves nothing", r)
		}
		return p
	}, func(t *testing.T, path string) {
		p := opened(t, volume.Config{Path: path})
		defer p.Close()
		if v, err := p.Get("v"); err != nil || v.Missing || v.State != record.Ready {
			t.Errorf("%+v, %v; staging %q", v, err, names(t, filepath.Join(path, staging)))
		}
	})
}

// The power goes after a purge that removed an entry, and once the trash was
// flushed for another volume: the record is not back, so that a directory
// in the volume's place is not taken for it.
func TestDiskPowerAfterAPurge(t *testing.T) {
	onPowerlessDisk(t, func(t *testing.T, path string) *volume.Pool {
		p := opened(t, volume.Config{Path: path, Step: func(step string) {
			if step == "delete.move" {
				testdisk.Sync(t, path) // as others may; what comes after is not on its way with what came before
			}
		}})
		_, err := p.Create(spec("v", mib))
		ok(t, err)
		_, err = p.Bind("v", binding("v"))
		ok(t, err)
		purge(t, p)
		ok(t, p.Delete("v"))
		purge(t, p)
		write(t, filepath.Join(path, "v", "data"), "x")
		for _, name := range []string{"v/data", "v", ".", trash} {
			flushed(t, filepath.Join(path, name))
		}
		return p
	}, func(t *testing.T, path string) {
		p := opened(t, volume.Config{Path: path})
		defer p.Close()
		if v, err := p.Get("v"); !errors.Is(err, volume.ErrNotFound) {
			t.Errorf("what somebody put there is taken for the volume: %+v, %v", v, err)
		}
		purge(t, p)
		if !there(filepath.Join(path, "v", "data")) {
			t.Error("what somebody put there is gone")
		}
	})
}

// A process is killed once it moved the record of a volume whose directory is missing, and
// before it flushed that. The next one answers the same call, for which it finds nothing to
// do, and then the power goes: the volume is not back.
func TestDiskPowerAfterAKilledDelete(t *testing.T) {
	onPowerlessDisk(t, func(t *testing.T, path string) *volume.Pool {
		c := volume.Config{Path: path, EnableBtrfsQuota: true, Step: func(step string) {
			if step == "delete.flush" {
				panic(killed{})
			}
		}}
		p := opened(t, c)
		_, err := p.Create(spec("v", mib))
		ok(t, err)
		_, err = p.Bind("v", binding("v"))
		ok(t, err)
		purge(t, p)
		ok(t, os.Remove(filepath.Join(path, "v")))
		testdisk.Sync(t, path)
		if died, err := new(life).live(func() error { return p.Delete("v") }); !died {
			t.Fatalf("it was not killed: %v", err)
		}
		ok(t, p.Close())
		p = opened(t, volume.Config{Path: path})
		ok(t, p.Delete("v"))
		return p
	}, func(t *testing.T, path string) {
		p := opened(t, volume.Config{Path: path})
		defer p.Close()
		if v, err := p.Get("v"); !errors.Is(err, volume.ErrNotFound) {
			t.Errorf("it is back: %+v, %v", v, err)
		}
	})
}
