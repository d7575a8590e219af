//go:build disk

package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

func subvolume(t *testing.T, path string) {
	t.Helper()
	os.MkdirAll(filepath.Dir(path), 0o755)
	testdisk.Run(t, "btrfs", "-q", "subvolume", "create", path)
}

func readOnly(t *testing.T, path string) {
	t.Helper()
	testdisk.Run(t, "btrfs", "property", "set", "-ts", path, "ro", "true")
	if err := os.WriteFile(filepath.Join(path, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Fatalf("%s can be written to: %v; the test proves nothing", path, err)
	}
}

// The owner of a subvolume can make it read-only, also one with others in it,
// with immutable files, below directories that have to move up, and while it is
// removed.
func TestDiskRemoveReadOnlySubvolumes(t *testing.T) {
	dir := testdisk.Mount(t, "btrfs")
	entry := filepath.Join(dir, "entry")
	subvolume(t, entry)
	deep, subs := entry, []string{entry}
	for range 4 {
		deep = filepath.Join(deep, "plain/plain/sub")
		subvolume(t, deep)
		write(t, filepath.Join(deep, "a/b/c/data"), "x")
		write(t, filepath.Join(deep, "a/frozen/data"), "x")
		change(t, filepath.Join(deep, "a/frozen/data"), quota.Immutable)
		change(t, filepath.Join(deep, "a/frozen"), quota.Immutable)
		subs = append(subs, deep)
	}
	testdisk.Run(t, "btrfs", "-q", "subvolume", "snapshot", "-r", deep, filepath.Join(entry, "snapshot"))
	for i := len(subs) - 1; i >= 0; i-- {
		readOnly(t, subs[i])
	}
	top, fd, again := open(t, entry), open(t, dir), 0
	meanwhile := func(context.Context) error {
		if again++; again%7 == 0 && again < 500 {
			flags := uint64(2) // BTRFS_SUBVOL_RDONLY, by BTRFS_IOC_SUBVOL_SETFLAGS
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(top), 0x4008941a, uintptr(unsafe.Pointer(&flags)))
		}
		return nil
	}
	err := tree.Remove(t.Context(), fd, "entry", meanwhile)
	for again < 500 && err != nil { // what is set at the wrong moment stays until the next call
		err = tree.Remove(t.Context(), fd, "entry", meanwhile)
	}
	if err != nil || there(entry) {
		t.Error(err)
	}
}

// The subvolume that the tree lies in is not the tenant's.
func TestDiskRemoveLeavesOthersReadOnly(t *testing.T) {
	dir := testdisk.Mount(t, "btrfs")
	home := filepath.Join(dir, "home")
	subvolume(t, home)
	write(t, filepath.Join(home, "entry/sub/data"), "x")
	readOnly(t, home)
	err := tree.Remove(t.Context(), open(t, home), "entry", nil)
	if !errors.Is(err, unix.EROFS) || !there(filepath.Join(home, "entry/sub/data")) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(home, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("home can be written to: %v", err)
	}
}

// A removal that the pace ends before anything was removed returns what kept it.
func TestDiskRemoveStoppedByFailures(t *testing.T) {
	dir := testdisk.Mount(t, "ext4")
	for i := range 20 {
		write(t, filepath.Join(dir, "entry", fmt.Sprint(i)), "")
		testdisk.Bind(t, filepath.Join(dir, "entry", fmt.Sprint(i)), filepath.Join(dir, "entry", fmt.Sprint(i)))
	}
	stop, left := errors.New("enough"), 15
	err := tree.Remove(t.Context(), open(t, dir), "entry", func(context.Context) error {
		if left--; left < 0 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || !errors.Is(err, unix.EBUSY) {
		t.Errorf("it says only %v", err)
	}
}
