// Package testdisk makes real filesystems for tests: images on loop devices,
// mounted in the test's temporary directory. It needs root and the mkfs tools,
// and fails a test that lacks them: a disk test never passes without a disk.
package testdisk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Kinds are the filesystems that Mount makes.
func Kinds() []string { return []string{"ext4", "xfs", "btrfs"} }

// Root fails the test unless it runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts disks: run it as root")
	}
}

// Image makes a file of 320 MiB with an empty filesystem of the kind.
func Image(t testing.TB, kind string) string {
	t.Helper()
	Root(t)
	tool, pkg := "mkfs."+kind, map[string]string{"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}[kind]
	if _, err := exec.LookPath(tool); err != nil {
		t.Fatalf("%s is missing: apt-get install %s", tool, pkg)
	}
	image := filepath.Join(t.TempDir(), kind+".img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The least that mkfs.xfs accepts is 300 MiB.
	if err := os.Truncate(image, 320<<20); err != nil {
		t.Fatal(err)
	}
	Run(t, tool, "-q", image)
	return image
}

// Mount makes a filesystem of the kind and mounts it in a new directory, until the test ends.
func Mount(t testing.TB, kind string) string {
	t.Helper()
	image := Image(t, kind)
	dir := t.TempDir()
	Attach(t, image, dir)
	return dir
}

// Attach mounts an image at dir until the test ends, if it is not detached before.
func Attach(t testing.TB, image, dir string, options ...string) {
	t.Helper()
	Run(t, "mount", "-o", strings.Join(append([]string{"loop"}, options...), ","), image, dir)
	t.Cleanup(func() { Detach(t, dir) })
}

// Detach unmounts whatever is mounted at dir. The loop device of an image goes with its mount.
func Detach(t testing.TB, dir string) {
	t.Helper()
	for {
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err == unix.EINVAL || err == unix.ENOENT {
			return // nothing is mounted there (any more)
		}
		if err != nil {
			t.Fatalf("unmount %s: %v", dir, err)
		}
	}
}

// Shutdown makes the ext4 or XFS at dir refuse everything, as after an error of
// its disk (EXT4_IOC_SHUTDOWN in fs/ext4/ioctl.c, XFS_IOC_GOINGDOWN in
// fs/xfs/libxfs/xfs_fs.h, which have the same number; NOLOGFLUSH).
func Shutdown(t testing.TB, dir string) {
	t.Helper()
	control(t, "shut down", dir, func(fd int) error { return unix.IoctlSetPointerInt(fd, 0x8004587d, 2) })
}

// Sync flushes the filesystem at dir. sync(2) would also wait for the disks of
// other tests, and hang while one of them is frozen.
func Sync(t testing.TB, dir string) {
	t.Helper()
	control(t, "flush", dir, unix.Syncfs)
}

// control calls do with the open directory, and fails the test with its error.
func control(t testing.TB, what, dir string, do func(fd int) error) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := do(int(f.Fd())); err != nil {
		t.Fatalf("%s %s: %v", what, dir, err)
	}
}

// Bind mounts the directory or file from at to until the test ends.
func Bind(t testing.TB, from, to string) {
	t.Helper()
	Root(t)
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("bind %s at %s: %v", from, to, err)
	}
	t.Cleanup(func() { Detach(t, to) })
}

// Run runs a tool and fails the test unless it succeeds.
func Run(t testing.TB, tool string, args ...string) {
	t.Helper()
	if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", tool, strings.Join(args, " "), err, out)
	}
}

// Freeze makes whatever is written to the filesystem at dir wait, as a disk that
// hangs does, until thaw is called or the test ends.
func Freeze(t testing.TB, dir string) (thaw func()) {
	t.Helper()
	// FIFREEZE and FITHAW of linux/fs.h, _IOWR('X', 119 and 120, int).
	const freeze, unfreeze = 0xc0045877, 0xc0045878
	control(t, "freeze", dir, func(fd int) error { return unix.IoctlSetInt(fd, freeze, 0) })
	thaw = sync.OnceFunc(func() {
		f, err := os.Open(dir)
		if err == nil {
			err = errors.Join(unix.IoctlSetInt(int(f.Fd()), unfreeze, 0), f.Close())
		}
		if err != nil {
			t.Errorf("thaw %s: %v", dir, err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}
