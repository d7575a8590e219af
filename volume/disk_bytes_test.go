//go:build disk

package volume_test

import (
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// bytesOf is bytesOfWrites in a directory of a new filesystem: the directory of a volume with a quota where the filesystem has one
// here, or a bare one.
func bytesOf(t *testing.T, kind string, bare bool) int64 {
	t.Helper()
	device, _ := testdisk.Loop(t, 512*mib)
	options := []string{"-q", device}
	if kind == "ext4" {
		options = append([]string{"-E", "lazy_itable_init=0,lazy_journal_init=0"}, options...) // the kernel would write for it later
	}
	testdisk.Run(t, "mkfs."+kind, options...)
	root := t.TempDir()
	testdisk.Run(t, "mount", device, root)
	t.Cleanup(func() { testdisk.Detach(t, root) })
	dir := filepath.Join(root, "bare")
	if bare {
		mkdir(t, dir)
		return bytesOfWrites(t, device, dir)
	}
	p := opened(t, volume.Config{Path: root + "/pool", EnableBtrfsQuota: true})
	s := spec("v", 256*mib)
	if s.Quota = record.QuotaBestEffort; kind == "btrfs" {
		s.Quota = record.QuotaRequired
	}
	v, err := p.Create(s)
	ok(t, err)
	return bytesOfWrites(t, device, v.Path)
}

// A volume costs the disk hardly more than a bare directory. TestVMBytesOfAVolume has project quotas.
func TestDiskBytesOfAVolume(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			hardlyMore(t, func() int64 { return bytesOf(t, kind, true) }, func() int64 { return bytesOf(t, kind, false) })
		})
	}
}
