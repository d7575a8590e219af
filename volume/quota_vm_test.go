//go:build vm

package volume_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// These run in the virtual machine of e2e/vm, whose kernel has project quota.
// They find their disks in the environment, XFS and EXT4.
func TestVMLimits(t *testing.T) {
	for _, d := range []struct {
		kind, disk string
		method     quota.Method
		full       unix.Errno
		lags       bool
	}{{"xfs", "XFS", quota.MethodXFS, unix.ENOSPC, true}, {"ext4", "EXT4", quota.MethodExt4, unix.EDQUOT, false}} {
		t.Run(d.kind, func(t *testing.T) {
			root := t.TempDir()
			if err := unix.Mount(os.Getenv(d.disk), root, d.kind, 0, "prjquota"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) })
			limitTable(t, quotaDisk{
				root: root, method: d.method, full: d.full, inodes: true, lags: d.lags, slow: true,
				// To freeze XFS drains its queue of removed inodes (xfs_inodegc_stop in
				// fs/xfs/xfs_icache.c).
				settle: func() { testdisk.Freeze(t, root)() },
			})
		})
	}
}
