package csi

import (
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
)

func TestLimitedUsage(t *testing.T) {
	type numbers struct{ total, used, available int64 }
	disk := unix.Statfs_t{Frsize: 1, Blocks: 1000, Bfree: 400, Bavail: 300, Files: 100, Ffree: 60}
	for name, row := range map[string]struct {
		u             quota.Usage
		bytes, inodes numbers
	}{
		"room":           {quota.Usage{Bytes: 50, Limit: quota.Limit{Bytes: 200}}, numbers{200, 50, 150}, numbers{100, 40, 60}},
		"full":           {quota.Usage{Bytes: 200, Limit: quota.Limit{Bytes: 200}}, numbers{200, 200, 0}, numbers{100, 40, 60}},
		"beyond":         {quota.Usage{Bytes: 210, Limit: quota.Limit{Bytes: 200}}, numbers{200, 210, 0}, numbers{100, 40, 60}},
		"disk has less":  {quota.Usage{Bytes: 50, Limit: quota.Limit{Bytes: 900}}, numbers{900, 50, 300}, numbers{100, 40, 60}},
		"inodes, too":    {quota.Usage{Bytes: 5, Inodes: 7, Limit: quota.Limit{Bytes: 20, Inodes: 10}}, numbers{20, 5, 15}, numbers{10, 7, 3}},
		"too many files": {quota.Usage{Bytes: 5, Inodes: 7, Limit: quota.Limit{Bytes: 20, Inodes: 90}}, numbers{20, 5, 15}, numbers{90, 7, 60}},
	} {
		got := limited(usage(&disk), row.u)
		for i, want := range []numbers{row.bytes, row.inodes} {
			if g := (numbers{got[i].Total, got[i].Used, got[i].Available}); g != want {
				t.Errorf("%s: %s %+v, want %+v", name, got[i].Unit, g, want)
			}
		}
	}
	disk.Files = 0 // btrfs
	if got := limited(usage(&disk), quota.Usage{Bytes: 1, Limit: quota.Limit{Bytes: 2}}); len(got) != 1 || got[0].Unit != proto.VolumeUsage_BYTES {
		t.Errorf("%v", got)
	}
}
