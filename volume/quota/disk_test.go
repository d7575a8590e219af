//go:build disk

package quota

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

func TestDiskBtrfs(t *testing.T) {
	image := testdisk.Image(t, "btrfs")
	table(t, disk{
		method: MethodBtrfs, full: unix.EDQUOT,
		mount: func(t *testing.T) string {
			dir := t.TempDir()
			testdisk.Attach(t, image, dir, "commit=1")
			fd := open(t, dir)
			ok(t, Enable(fd))
			shut(fd)
			return dir
		},
		remount: func(t *testing.T, dir string) {
			ok(t, unix.Unmount(dir, 0))
			testdisk.Attach(t, image, dir, "commit=1")
		},
	})
}

// Filesystems as mkfs makes them, on the machine's own kernel.
func TestDiskWithoutLimits(t *testing.T) {
	for _, row := range []struct{ kind, why string }{
		{"ext4", "tune2fs -O project,quota"},
		{"xfs", "mount it with that"},
		{"btrfs", "btrfs without simple quota (squota); start the agent with --enable-btrfs-quota, or run btrfs quota enable"},
	} {
		t.Run(row.kind, func(t *testing.T) {
			noLimits(t, testdisk.Mount(t, row.kind), row.why, "the kernel is built without", "the kernel is too old")
		})
	}
	t.Run("tmpfs", func(t *testing.T) {
		dir := t.TempDir()
		ok(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
		t.Cleanup(func() { ok(t, unix.Unmount(dir, 0)) })
		noLimits(t, dir, "this filesystem is tmpfs")
	})
}

// Full quota is not this package's: it enforces no quotas of volumes, and Enable
// leaves it as it is.
func TestDiskBtrfsFullQuota(t *testing.T) {
	dir := testdisk.Mount(t, "btrfs")
	testdisk.Run(t, "btrfs", "quota", "enable", dir)
	if err := Enable(open(t, dir)); !errors.Is(err, ErrInvalid) {
		t.Errorf("enable: %v", err)
	}
	noLimits(t, dir, "full quota")
}

// Enable twice is as once, and no other filesystem is touched.
func TestDiskEnable(t *testing.T) {
	fd := open(t, testdisk.Mount(t, "btrfs"))
	for range 2 {
		ok(t, Enable(fd))
	}
	if err := Enable(open(t, testdisk.Mount(t, "ext4"))); !errors.Is(err, ErrInvalid) {
		t.Errorf("on ext4: %v", err)
	}
}
