//go:build disk

package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// The whole life of volumes, on every filesystem.
func TestDiskLife(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			path := testdisk.Mount(t, kind)
			p := opened(t, volume.Config{Path: path})
			ok(t, os.Chmod(path, 0o700))
			os.Remove(filepath.Join(path, "lost+found"))
			const size = 1 << 20
			long := strings.Repeat("n", 255)
			for _, name := range []string{"a", long} {
				if _, err := p.Create(spec(name, size)); err != nil {
					t.Fatal(err)
				}
				_, err := p.Bind(name, binding(name))
				ok(t, err)
				write(t, filepath.Join(path, name, "deep/er/data"), strings.Repeat("x", size/2))
			}
			consistent(t, p)
			testdisk.Sync(t, path)
			ok(t, p.Measure(t.Context()))
			s, err := p.Space()
			ok(t, err)
			if s.Allocated != 2*size || s.Used < size || s.Used > 2*size || s.Available > s.Free {
				t.Errorf("space %+v", s)
			}
			ok(t, p.Close())
			p = opened(t, volume.Config{Path: path})
			consistent(t, p)
			for _, name := range []string{"a", long} {
				ok(t, p.Delete(name))
			}
			r, err := inspect.Read(path)
			if err != nil || len(r.Trash) != 2 || !r.Pool.Held || r.Pool.Holder == "" {
				t.Errorf("inspect %+v, %v", r, err)
			}
			purge(t, p)
			consistent(t, p)
		})
	}
}

// A disk that is not mounted when the agent starts, and comes later.
func TestDiskComesLater(t *testing.T) {
	image := testdisk.Image(t, "ext4")
	path := t.TempDir()
	testdisk.Attach(t, image, path)
	p := opened(t, volume.Config{Path: path})
	_, err := p.Create(spec("v", 1))
	ok(t, err)
	id := p.ID()
	ok(t, p.Close())
	testdisk.Detach(t, path)

	expected := pooldir.Expected{IDs: []string{id}}
	p = configured(t, volume.Config{Path: path, Expected: func() pooldir.Expected { return expected }})
	is(t, p.Open(), volume.ErrNotReady)
	is(t, p.Delete("v"), volume.ErrNotReady)
	if got := names(t, path); len(got) > 0 {
		t.Fatalf("created %v on the disk below", got)
	}
	testdisk.Attach(t, image, path)
	ok(t, p.Ready())
	if v, err := p.Get("v"); err != nil || v.Missing {
		t.Error(v, err)
	}
	// And goes again, under the running pool.
	testdisk.Detach(t, path)
	is(t, p.Ready(), volume.ErrNotReady)
	_, err = p.Create(spec("w", 1))
	is(t, err, volume.ErrNotReady)
	if got := names(t, path); len(got) > 0 {
		t.Fatalf("created %v on the disk below", got)
	}
	testdisk.Attach(t, image, path)
	_, err = p.Create(spec("w", 1))
	ok(t, err)
	if p.ID() != id {
		t.Errorf("it came back as %s, was %s", p.ID(), id)
	}
}

// Another mount at the path, even of the very same directory, is noticed.
func TestDiskSameDirectoryMountedOver(t *testing.T) {
	path := testdisk.Mount(t, "ext4")
	p := opened(t, volume.Config{Path: path})
	v, err := p.Create(spec("v", 1))
	ok(t, err)
	testdisk.Bind(t, path, path)
	// Seen through the old mount, nothing would be known to be mounted here.
	target := t.TempDir()
	testdisk.Bind(t, v.Path, target)
	is(t, p.Delete("v"), volume.ErrInUse)
	testdisk.Detach(t, target)
	ok(t, p.Delete("v"))
	// Our descriptor could still write, but not what now is at the path.
	testdisk.Run(t, "mount", "-o", "remount,bind,ro", path)
	is(t, p.Ready(), volume.ErrNotReady)
	testdisk.Bind(t, path, path)
	is(t, p.Ready(), volume.ErrNotReady)
	testdisk.Run(t, "mount", "-o", "remount,bind,rw", path)
	ok(t, p.Ready())
}

func TestDiskReadOnly(t *testing.T) {
	image := testdisk.Image(t, "ext4")
	path := t.TempDir()
	testdisk.Attach(t, image, path)
	p := opened(t, volume.Config{Path: path})
	_, err := p.Create(spec("v", 1))
	ok(t, err)
	testdisk.Run(t, "mount", "-o", "remount,ro", path)
	err = p.Ready()
	if is(t, err, volume.ErrNotReady); !strings.Contains(err.Error(), "read-only") {
		t.Error(err)
	}
	is(t, p.Delete("v"), volume.ErrNotReady)
	is(t, pooldir.Check(path), volume.ErrNotReady)
	is(t, pooldir.Check(path+"/new"), volume.ErrNotReady)
	q := configured(t, volume.Config{Path: path})
	is(t, q.Open(), volume.ErrNotReady)
	testdisk.Run(t, "mount", "-o", "remount,rw", path)
	ok(t, p.Ready())
	ok(t, p.Delete("v"))
}

func TestDiskTurnsReadOnlyInTheMiddle(t *testing.T) {
	image := testdisk.Image(t, "ext4")
	path := t.TempDir()
	testdisk.Attach(t, image, path)
	at := ""
	p := opened(t, volume.Config{Path: path, Step: func(step string) {
		if step == at {
			testdisk.Run(t, "mount", "-o", "remount,ro", path)
		}
	}})
	ok(t, os.Chmod(path, 0o700))
	ok(t, os.Remove(filepath.Join(path, "lost+found")))
	for _, at = range []string{"create.record", "create.mkdir", "create.mode", "create.rename"} {
		_, err := p.Create(spec("v", 1))
		is(t, err, volume.ErrNotReady)
		testdisk.Run(t, "mount", "-o", "remount,rw", path)
		at = ""
		_, err = p.Create(spec("v", 1))
		ok(t, err)
		consistent(t, p)
		ok(t, p.RollBack("v"))
	}
}

// A disk that fails answers every request with an error. Nothing is called gone,
// and once it is back all goes on.
func TestDiskFails(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			image, path := testdisk.Image(t, kind), t.TempDir()
			testdisk.Attach(t, image, path)
			p := opened(t, volume.Config{Path: path})
			small := func(name string) {
				t.Helper()
				_, err := p.Create(spec(name, 1<<20))
				ok(t, err)
			}
			small("v")
			testdisk.Shutdown(t, path)
			is(t, p.Ready(), volume.ErrNotReady)
			_, err := p.Create(spec("w", 1<<20))
			if err == nil {
				t.Error("it created a volume on a disk that fails")
			}
			if err := p.Delete("v"); err == nil {
				t.Error("it deleted a volume on a disk that fails")
			}
			testdisk.Detach(t, path)
			is(t, p.Ready(), volume.ErrNotReady)
			testdisk.Attach(t, image, path)
			ok(t, p.Ready())
			if v, err := p.Get("v"); err != nil || v.Missing {
				t.Errorf("%+v, %v", v, err)
			}
			small("w")
		})
	}
}

func TestDiskProjectInherit(t *testing.T) {
	path := testdisk.Mount(t, "xfs")
	testdisk.Run(t, "chattr", "+P", path)
	p := configured(t, volume.Config{Path: path})
	err := p.Open()
	if is(t, err, volume.ErrInvalid); !strings.Contains(err.Error(), "chattr -P") || len(names(t, path)) > 0 {
		t.Error(err)
	}
	if is(t, p.Ready(), volume.ErrNotReady); errors.Is(p.Ready(), volume.ErrInvalid) {
		t.Error("the request is not what is wrong")
	}
	testdisk.Run(t, "chattr", "-P", path)
	ok(t, p.Ready())
}

func TestDiskFull(t *testing.T) {
	path := testdisk.Mount(t, "ext4")
	p := opened(t, volume.Config{Path: path})
	fill, err := os.Create(filepath.Join(path, "others"))
	ok(t, err)
	defer fill.Close()
	var st unix.Statfs_t
	ok(t, unix.Statfs(path, &st))
	ok(t, unix.Fallocate(int(fill.Fd()), 0, 0, int64(st.Bfree)*st.Bsize*95/100))
	s, err := p.Space()
	ok(t, err)
	_, err = p.Create(spec("v", s.Available+1<<20))
	is(t, err, volume.ErrNoSpace)
	if there(filepath.Join(path, records, "v")) {
		t.Error("it left a record")
	}
}

func TestDiskLabel(t *testing.T) {
	const label = "system_u:object_r:container_file_t:s0:c1,c2"
	disk := testdisk.Mount(t, "ext4")
	memory := t.TempDir() // a filesystem without extended attributes
	ok(t, unix.Mount("none", memory, "ramfs", 0, ""))
	defer testdisk.Detach(t, memory)
	get := func(path string) string {
		buf := make([]byte, 100)
		n, err := unix.Lgetxattr(path, "security.selinux", buf)
		if err != nil {
			return ""
		}
		return string(buf[:n])
	}
	p := opened(t, volume.Config{Path: disk + "/named", Label: label})
	v, err := p.Create(spec("v", 1))
	ok(t, err)
	if got := get(v.Path); got != label+"\x00" {
		t.Errorf("label %q", got)
	}
	want := ""
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err == nil {
		want = pooldir.DefaultLabel + "\x00"
	}
	p = opened(t, volume.Config{Path: disk + "/auto", Label: pooldir.LabelAuto})
	if v, err = p.Create(spec("v", 1)); err != nil || get(v.Path) != want {
		t.Errorf("label %q, want %q, %v", get(v.Path), want, err)
	}
	// ramfs has no size, so nothing is available; what was allocated before may
	// be made again.
	p = opened(t, volume.Config{Path: memory + "/pool"})
	ok(t, p.Close())
	recordFile(t, p.Path(), record.Record{Name: "v", State: record.Ready, Bytes: 1, PV: "pv-v", Owner: spec("v", 1).Owner})
	p = opened(t, volume.Config{Path: p.Path(), Label: label})
	if _, err = p.Create(spec("v", 1)); !errors.Is(err, unix.ENOTSUP) || !strings.Contains(err.Error(), label) {
		t.Errorf("a label that cannot be set: %v", err)
	}
	consistent(t, p)
}
