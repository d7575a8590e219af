//go:build disk

package volume_test

import (
	"os"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

func TestDiskInUse(t *testing.T) {
	path := testdisk.Mount(t, "xfs")
	p := opened(t, volume.Config{Path: path})
	v, err := p.Create(spec("v", 1))
	ok(t, err)
	mkdir(t, filepath.Join(v.Path, "sub"))
	outside := t.TempDir()
	for name, m := range map[string][2]string{
		"from it": {v.Path, outside}, "from below it": {filepath.Join(v.Path, "sub"), outside},
		"on it": {outside, v.Path}, "in it": {outside, filepath.Join(v.Path, "sub")},
	} {
		testdisk.Bind(t, m[0], m[1])
		is(t, p.Delete("v"), volume.ErrInUse)
		is(t, p.RollBack("v"), volume.ErrInUse)
		if v, err := p.Get("v"); err != nil || v.State != record.Ready || v.Missing {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		testdisk.Detach(t, m[1])
	}
	mkdir(t, filepath.Join(path, "mountpoint"))
	testdisk.Bind(t, outside, filepath.Join(path, "mountpoint"))
	_, err = p.Adopt(spec("mountpoint", 1))
	is(t, err, volume.ErrInUse)
	ok(t, p.Delete("v"))
	purge(t, p)
}

// The pool is itself a bind mount, as in the agent's container.
func TestDiskInUseThroughABindMount(t *testing.T) {
	disk := testdisk.Mount(t, "ext4")
	mkdir(t, filepath.Join(disk, "host/pool"))
	path, target := t.TempDir(), t.TempDir()
	testdisk.Bind(t, filepath.Join(disk, "host/pool"), path)
	p := opened(t, volume.Config{Path: path})
	_, err := p.Create(spec("v", 1))
	ok(t, err)
	// Mounted by the host's path, not by that of this process.
	testdisk.Bind(t, filepath.Join(disk, "host/pool/v"), target)
	is(t, p.Delete("v"), volume.ErrInUse)
	testdisk.Detach(t, target)
	ok(t, p.Delete("v"))
}

// On btrfs the device numbers of files are not those of mountinfo.
func TestDiskInUseOnASubvolume(t *testing.T) {
	disk := testdisk.Mount(t, "btrfs")
	path, target := filepath.Join(disk, "@pool"), t.TempDir()
	testdisk.Run(t, "btrfs", "-q", "subvolume", "create", path)
	p := opened(t, volume.Config{Path: path})
	v, err := p.Create(spec("v", 1))
	ok(t, err)
	testdisk.Bind(t, v.Path, target)
	is(t, p.Delete("v"), volume.ErrInUse)
	testdisk.Detach(t, target)
	ok(t, p.Delete("v"))
	if r, err := inspect.Read(path); err != nil || !r.Pool.Held {
		t.Errorf("inspect %+v, %v", r.Pool, err)
	}
}

// What a hostile tenant may have left: nothing outside is touched, and what
// can go goes.
func TestDiskHostileTrash(t *testing.T) {
	path := testdisk.Mount(t, "ext4")
	p := opened(t, volume.Config{Path: path})
	precious := filepath.Join(t.TempDir(), "precious")
	write(t, precious, "x")
	for _, name := range []string{"bound", "hostile"} {
		_, err := p.Create(spec(name, 1))
		ok(t, err)
	}
	v := filepath.Join(path, "hostile")
	ok(t, os.Symlink(filepath.Dir(precious), filepath.Join(v, "link")))
	write(t, filepath.Join(v, "frozen/file"), "x")
	testdisk.Run(t, "chattr", "+i", filepath.Join(v, "frozen/file"), filepath.Join(v, "frozen"), v)
	ok(t, p.Delete("hostile")) // though its directory is immutable
	ok(t, p.Delete("bound"))
	entry := entryOf(t, p, "bound")
	mkdir(t, filepath.Join(entry, "a/b"))
	testdisk.Bind(t, filepath.Dir(precious), filepath.Join(entry, "a/b"))
	more, err := p.Purge(t.Context())
	if is(t, err, volume.ErrInUse); !more || !there(precious) || !there(entry) {
		t.Error(more, err)
	}
	if left := names(t, filepath.Join(path, trash)); len(left) != 2 {
		t.Errorf("trash %v", left)
	}
	testdisk.Detach(t, filepath.Join(entry, "a/b"))
	purge(t, p)
	if !there(precious) {
		t.Error("something outside was removed")
	}
}

// entryOf finds a deleted volume in the trash.
func entryOf(t *testing.T, p *volume.Pool, name string) string {
	t.Helper()
	r, err := inspect.Read(p.Path())
	ok(t, err)
	for _, e := range r.Trash {
		if e.Name == name {
			return filepath.Join(p.Path(), trash, e.ID)
		}
	}
	t.Fatalf("%s is not in the trash: %+v", name, r.Trash)
	return ""
}

// Two processes on one filesystem: each counts what the other's volumes use as external, and does
// not know what was allocated to them, so the same bytes may be allocated twice; see
// docs/decisions/0005-available-is-a-lower-bound.md.
func TestDiskOfTwoProcesses(t *testing.T) {
	disk := testdisk.Mount(t, "ext4")
	one, other := opened(t, volume.Config{Path: filepath.Join(disk, "one")}), opened(t, volume.Config{Path: filepath.Join(disk, "other")})
	space := func(p *volume.Pool) space.Space {
		t.Helper()
		s, err := p.Space()
		ok(t, err)
		return s
	}
	before := space(other)
	v, err := one.Create(spec("v", before.Available*3/4))
	ok(t, err)
	if s := space(other); s.Elsewhere != 0 || s.Available < before.Available-mib {
		t.Errorf("the other process knows of an allocation: %+v, before %+v", s, before)
	}
	const data = 64 * mib
	ok(t, os.WriteFile(filepath.Join(v.Path, "data"), make([]byte, data), 0o600))
	testdisk.Run(t, "sync", "-f", disk)
	if s := space(other); s.External < before.External+data || s.Available > before.Available-data {
		t.Errorf("the other process does not count the data: %+v, before %+v", s, before)
	}
}
