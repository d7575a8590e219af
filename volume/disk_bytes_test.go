//go:build disk

package volume_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// written returns how many bytes a block device was asked to write since it was attached.
func written(t *testing.T, device string) int64 {
	t.Helper()
	data, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/stat")
	ok(t, err)
	sectors, err := strconv.ParseInt(strings.Fields(string(data))[6], 10, 64)
	ok(t, err)
	return sectors * 512
}

// bytesOf returns the bytes that reach the disk for the same writes into a directory of a new filesystem: the directory of a volume
// with a quota where the filesystem has one here, or a bare one. The writes are 64 MiB in order, 4,096 blocks of 4 KiB at random
// places, flushed every 64, and 500 small files.
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
	} else {
		p := opened(t, volume.Config{Path: root + "/pool", EnableBtrfsQuota: true})
		s := spec("v", 256*mib)
		if s.Quota = record.QuotaBestEffort; kind == "btrfs" {
			s.Quota = record.QuotaRequired
		}
		v, err := p.Create(s)
		ok(t, err)
		dir = v.Path
	}
	testdisk.Sync(t, root)
	before := written(t, device)
	f := image(t, dir+"/image", 64*mib)
	random, block := rand.New(rand.NewPCG(1, 2)), make([]byte, 4096)
	for i := range 4096 {
		block[0]++
		_, err := f.WriteAt(block, random.Int64N(64*mib/4096)*4096)
		ok(t, err)
		if i%64 == 63 {
			ok(t, f.Sync())
		}
	}
	for i := range 500 {
		ok(t, os.WriteFile(filepath.Join(dir, "file-"+strconv.Itoa(i)), block, 0o644))
	}
	testdisk.Sync(t, root)
	return written(t, device) - before
}

// A volume costs the disk hardly more than a bare directory: the bytes that reach it, in pairs. docs/filesystems.md has the figures.
func TestDiskBytesOfAVolume(t *testing.T) {
	const rounds, most = 3, 1.05
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			var ratios []float64
			for range rounds {
				bare := bytesOf(t, kind, true)
				own := bytesOf(t, kind, false)
				ratios = append(ratios, float64(own)/float64(bare))
				t.Logf("bare %.1f MiB, volume %.1f MiB: %.3f", float64(bare)/float64(mib), float64(own)/float64(mib), ratios[len(ratios)-1])
			}
			slices.Sort(ratios)
			if ratios[rounds/2] > most {
				t.Errorf("a volume writes %.3f times what a bare directory does, more than %.2f", ratios[rounds/2], most)
			}
		})
	}
}
