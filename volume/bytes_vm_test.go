//go:build vm

package volume_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// TestDiskBytesOfAVolume with project quotas, which the kernel of the virtual machine has.
func TestVMBytesOfAVolume(t *testing.T) {
	for kind, disk := range map[string]string{"xfs": "XFS", "ext4": "EXT4"} {
		t.Run(kind, func(t *testing.T) {
			device, root := os.Getenv(disk), t.TempDir()
			ok(t, unix.Mount(device, root, kind, 0, "prjquota"))
			t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) })
			p := opened(t, volume.Config{Path: root + "/pool"})
			bare := func() int64 {
				mkdir(t, root+"/bare")
				defer os.RemoveAll(root + "/bare")
				return bytesOfWrites(t, device, root+"/bare")
			}
			bare() // the first writes allocate what later ones find
			hardlyMore(t, bare, func() int64 {
				s := spec("v", 128*mib)
				s.Quota = record.QuotaRequired
				v, err := p.Create(s)
				ok(t, err)
				defer purge(t, p)
				defer func() { ok(t, p.Delete("v")) }()
				return bytesOfWrites(t, device, v.Path)
			})
		})
	}
}
