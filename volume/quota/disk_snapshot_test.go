//go:build disk

package quota

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// snapshots returns a pool on a btrfs, whose image can be mounted again.
func snapshots(t *testing.T) (p pool, image string) {
	dir, image := t.TempDir(), testdisk.Image(t, "btrfs")
	testdisk.Attach(t, image, dir, "commit=1")
	ok(t, Enable(open(t, dir)))
	return newPool(t, disk{method: MethodBtrfs}, dir), image
}

// A snapshot is made of a source that is full, and neither side writes more than its quota: what both
// share counts for the source alone.
func TestDiskBtrfsSnapshotHasAQuota(t *testing.T) {
	p, _ := snapshots(t)
	s := p.Enforcer.(Snapshotter)
	v, fd := p.volume("v", Limit{Bytes: 16 * mib})
	ok(t, unix.Fchmod(fd, 0o2751))
	ok(t, unix.Fchown(fd, 2000, 2001))
	if _, err := fill(v + "/data"); !errors.Is(err, unix.EDQUOT) {
		t.Fatal(err)
	}
	ok(t, s.Snapshot(fd, p.stage, "c"))
	c := open(t, p.path+"/staging/c")
	if _, err := p.Set(c, 0, Limit{Bytes: 8 * mib}); !errors.Is(err, ErrForeign) {
		t.Errorf("Set of a directory with data: %v", err)
	}
	id, err := s.SetSnapshot(c, Limit{Bytes: 8 * mib})
	ok(t, err)
	flush(t, c)
	if u := p.usage(c); u.Bytes > mib || u.Limit.Bytes != 8*mib {
		t.Errorf("the snapshot has %+v", u)
	}
	if again, err := p.Set(c, id, Limit{Bytes: 8 * mib}); again != id || err != nil {
		t.Errorf("Set again: %d, %v, want %d", again, err, id)
	}
	var st unix.Stat_t
	ok(t, unix.Fstat(c, &st))
	if st.Uid != 2000 || st.Gid != 2001 || st.Mode&0o7777 != 0o2751 {
		t.Errorf("owner %d:%d, mode %o", st.Uid, st.Gid, st.Mode)
	}
	if n, err := fill(p.path + "/staging/c/more"); !errors.Is(err, unix.EDQUOT) || n < 4*mib || n > 8*mib {
		t.Errorf("wrote %d bytes into the snapshot, %v", n, err)
	}
	if u := p.usage(fd); u.Bytes > 16*mib {
		t.Errorf("what was written to the snapshot counts for the source: %+v", u)
	}
	shut(c)
	ok(t, unix.Renameat2(p.stage, "c", p.base, "c", unix.RENAME_NOREPLACE))
	if removed, err := p.Remove(p.base, "c"); !removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// A snapshot of a read-only subvolume is writable: a read-only one could not be moved into place.
func TestDiskBtrfsSnapshotOfAReadOnlyVolume(t *testing.T) {
	p, _ := snapshots(t)
	v, fd := p.volume("v", Limit{Bytes: 16 * mib})
	ok(t, os.WriteFile(v+"/data", []byte("of v"), 0o600))
	testdisk.Run(t, "btrfs", "property", "set", "-t", "subvol", v, "ro", "true")
	ok(t, p.Enforcer.(Snapshotter).Snapshot(fd, p.stage, "c"))
	ok(t, unix.Renameat2(p.stage, "c", p.base, "c", unix.RENAME_NOREPLACE))
	ok(t, os.WriteFile(p.path+"/c/more", nil, 0o600))
}

// Files of the source that are open and have no name are removed from its snapshot by the kernel, which
// gives the snapshot blocks of its own. That is no reason for another try.
func TestDiskBtrfsSnapshotWithOpenFiles(t *testing.T) {
	p, _ := snapshots(t)
	v, fd := p.volume("v", Limit{Bytes: 64 * mib})
	for i := range 3000 { // with fewer the kernel counts nothing in time
		f := create(t, fmt.Sprintf("%s/unnamed-%d", v, i))
		_, err := f.Write(make([]byte, 8<<10))
		ok(t, err)
		ok(t, os.Remove(f.Name()))
	}
	flush(t, fd)
	tries := 0
	e, err := Probe(p.base, Hooks{Step: func(step string) {
		if step == "snapshot" {
			tries++
		}
	}})
	ok(t, err)
	ok(t, e.(Snapshotter).Snapshot(fd, p.stage, "c"))
	if tries != 1 {
		t.Errorf("%d tries", tries)
	}
}

// Data of a removed volume that others share counts for the ID that the kernel gives to the next
// subvolume after a restart. No snapshot begins with it.
func TestDiskBtrfsSnapshotWithAnIDUsedAgain(t *testing.T) {
	p, image := snapshots(t)
	v, vfd := p.volume("v", Limit{Bytes: 64 * mib})
	w, wfd := p.volume("w", Limit{Bytes: 16 * mib})
	data, to := create(t, w+"/data"), create(t, v+"/shared")
	_, err := pour(data, 8*mib)
	ok(t, err)
	flush(t, wfd)
	ok(t, unix.IoctlFileClone(int(to.Fd()), int(data.Fd())))
	gone, err := idOf(wfd)
	ok(t, err)
	ok(t, data.Close())
	ok(t, to.Close())
	shut(wfd)
	shut(vfd)
	if removed, err := p.Remove(p.base, "w"); !removed || err != nil {
		t.Fatal(removed, err)
	}
	testdisk.Run(t, "btrfs", "subvolume", "sync", p.root)
	p = mountedAgain(t, p, image)
	tries := 0
	e, err := Probe(p.base, Hooks{Step: func(step string) {
		if step == "snapshot" {
			tries++
		}
	}})
	ok(t, err)
	s := e.(Snapshotter)
	ok(t, s.Snapshot(open(t, p.path+"/v"), p.stage, "c"))
	c := open(t, p.path+"/staging/c")
	id, err := s.SetSnapshot(c, Limit{Bytes: 8 * mib})
	ok(t, err)
	if u := p.usage(c); id == gone || u.Bytes > mib || tries != 2 {
		t.Errorf("ID %d, which was of a removed volume: %d; %+v; %d tries", id, gone, u, tries)
	}
}

// mountedAgain mounts the pool's filesystem again.
func mountedAgain(t *testing.T, p pool, image string) pool {
	t.Helper()
	opened.Range(func(fd, _ any) bool { shut(fd.(int)); return true })
	ok(t, unix.Unmount(p.root, unix.MNT_DETACH))
	testdisk.Attach(t, image, p.root, "commit=1")
	return newPool(t, disk{method: MethodBtrfs}, p.root)
}

// Every subvolume in a volume is found at once, wherever a tenant has made it and whatever its name.
func TestDiskBtrfsNested(t *testing.T) {
	p, _ := snapshots(t)
	v, fd := p.volume("v", Limit{Bytes: 16 * mib})
	for _, name := range []string{"plain", "a/b/deep", "new\nline", "-rf", "\x1b[31m\xff", "sp ace", "%s"} {
		if path, err := Nested(fd); path != "" || err != nil {
			t.Fatalf("%q, %v", path, err)
		}
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(v, name)), 0o755))
		in := open(t, filepath.Dir(filepath.Join(v, name)))
		ok(t, unix.Fchmod(in, 0o777))
		asTenant(t, func() error { return subvolume(in, btrfsSubvolCreate, filepath.Base(name)) })
		if path, err := Nested(fd); path != name || err != nil {
			t.Errorf("%q, %v; want %q", path, err, name)
		}
		ok(t, os.Remove(filepath.Join(v, name)))
	}
	for i := range 300 { // more than one answer of the kernel has
		ok(t, subvolume(fd, btrfsSubvolCreate, fmt.Sprint(i)))
	}
	if path, err := Nested(fd); path == "" || err != nil {
		t.Errorf("%q, %v", path, err)
	}
	_, other := p.volume("w", Limit{Bytes: 16 * mib})
	if path, err := Nested(other); path != "" || err != nil {
		t.Errorf("the volume beside it: %q, %v", path, err)
	}
}
