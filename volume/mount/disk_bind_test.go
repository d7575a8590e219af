//go:build disk

package mount_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

func descriptor(t *testing.T, path string) *os.File {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { f.Close() })
	return f
}

func target(t *testing.T, root, path string) *mount.Target {
	t.Helper()
	at, err := mount.OpenTarget(root, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		at.Close()
		testdisk.Detach(t, path)
	})
	return at
}

func flags(t *testing.T, readonly bool, options ...string) mount.Flags {
	t.Helper()
	f, err := mount.ParseFlags(options, readonly)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func every(mount.Info) bool { return true }

func TestDiskBind(t *testing.T) {
	testdisk.Root(t)
	source, root := t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(source, "data"), []byte("kept"), 0o600)
	dir, path := descriptor(t, source), filepath.Join(root, "mount")
	at := target(t, root, path)
	for range 2 { // the second does nothing
		if err := at.Bind(dir, flags(t, true, "nosuid", "noexec", "noatime")); err != nil {
			t.Fatal(err)
		}
	}
	found, err := at.Inspect()
	same, _ := found.Is(dir)
	if err != nil || !found.Mounted || !same || found.Info.Point != path {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, option := range []string{"ro", "nosuid", "noexec", "noatime"} {
		if !strings.Contains(","+found.Info.Options+",", ","+option+",") {
			t.Errorf("mounted %s, without %s", found.Info.Options, option)
		}
	}
	if err := os.WriteFile(filepath.Join(path, "x"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to a readonly mount: %v", err)
	}
	if err := os.WriteFile(filepath.Join(source, "x"), nil, 0o600); err != nil {
		t.Errorf("the source is readonly too: %v", err)
	}
	for name, err := range map[string]error{
		"other flags": at.Bind(dir, flags(t, false)),
		"other dir":   at.Bind(descriptor(t, t.TempDir()), flags(t, true)),
		"not ours":    at.Unbind(func(mount.Info) bool { return false }),
	} {
		if !errors.Is(err, mount.ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := at.Unbind(every); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is left: %v", err)
	}
	if data, _ := os.ReadFile(filepath.Join(source, "data")); string(data) != "kept" {
		t.Error("data is gone")
	}
	if err := at.Unbind(every); err != nil {
		t.Errorf("again: %v", err)
	}
}

// Two mounts on one target, and files in the directory below them.
func TestDiskUnbindNeverRemovesData(t *testing.T) {
	testdisk.Root(t)
	source, root := t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(source, "data"), []byte("kept"), 0o600)
	path := filepath.Join(root, "mount")
	os.Mkdir(path, 0o755)
	os.WriteFile(filepath.Join(path, "below"), []byte("kept"), 0o600)
	at := target(t, root, path)
	testdisk.Bind(t, source, path)
	testdisk.Bind(t, source, path)
	if err := at.Unbind(every); !errors.Is(err, mount.ErrOther) {
		t.Errorf("a target that is not empty: %v", err)
	}
	if found, err := at.Inspect(); err != nil || found.Mounted {
		t.Errorf("left mounted: %+v, %v", found, err)
	}
	for _, file := range []string{filepath.Join(source, "data"), filepath.Join(path, "below")} {
		if data, _ := os.ReadFile(file); string(data) != "kept" {
			t.Errorf("%s is gone", file)
		}
	}
}

// What is mounted in the source stays its owner's affair, and a source that is
// a bind mount itself keeps its own flags unless others are asked for.
func TestDiskBindTakesOverOnlyTheDirectory(t *testing.T) {
	testdisk.Root(t)
	outer, inner, root := t.TempDir(), t.TempDir(), t.TempDir()
	os.Mkdir(filepath.Join(outer, "sub"), 0o755)
	os.WriteFile(filepath.Join(inner, "secret"), nil, 0o600)
	testdisk.Bind(t, inner, filepath.Join(outer, "sub"))
	at := target(t, root, filepath.Join(root, "mount"))
	if err := at.Bind(descriptor(t, outer), flags(t, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "mount/sub/secret")); err == nil {
		t.Error("a mount inside the source came along")
	}
	if err := at.Unbind(every); err != nil {
		t.Error(err)
	}
}

// The mount of a filesystem that met an error and refuses every request comes
// off like any other, unless it is not the caller's.
func TestDiskUnbindAfterShutdown(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			disk, root := testdisk.Mount(t, kind), t.TempDir()
			source, path := filepath.Join(disk, "v"), filepath.Join(root, "mount")
			if err := os.Mkdir(source, 0o755); err != nil {
				t.Fatal(err)
			}
			dir, at := descriptor(t, source), target(t, root, path)
			if err := at.Bind(dir, flags(t, false)); err != nil {
				t.Fatal(err)
			}
			testdisk.Shutdown(t, disk)
			if found, err := at.Inspect(); err != nil || !found.Mounted || found.Info.Root != "/v" {
				t.Errorf("%+v, %v", found, err)
			}
			if err := at.Unbind(func(mount.Info) bool { return false }); !errors.Is(err, mount.ErrOther) {
				t.Errorf("not ours: %v", err)
			}
			for range 2 {
				if err := at.Unbind(every); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the target is left: %v", err)
			}
		})
	}
}
