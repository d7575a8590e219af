//go:build disk || vm

package volume_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

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

// bytesOfWrites returns the bytes that reach the device for these writes into a directory: 64 MiB in order, 4,096 blocks of 4 KiB at
// random places, flushed every 64, and 500 small files.
func bytesOfWrites(t *testing.T, device, dir string) int64 {
	t.Helper()
	testdisk.Sync(t, dir)
	before := written(t, device)
	f, err := os.Create(dir + "/image")
	ok(t, err)
	defer f.Close()
	whole := make([]byte, mib)
	for range 64 {
		_, err := f.Write(whole)
		ok(t, err)
	}
	ok(t, f.Sync())
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
	testdisk.Sync(t, dir)
	return written(t, device) - before
}

// hardlyMore compares the bytes that reach the disk for the writes into a volume with those into a bare directory, in pairs.
// docs/filesystems.md has the figures.
func hardlyMore(t *testing.T, bare, own func() int64) {
	t.Helper()
	const rounds, most = 3, 1.05
	var ratios []float64
	for range rounds {
		without, with := bare(), own()
		ratios = append(ratios, float64(with)/float64(without))
		t.Logf("bare %.1f MiB, volume %.1f MiB: %.3f", float64(without)/float64(mib), float64(with)/float64(mib), ratios[len(ratios)-1])
	}
	slices.Sort(ratios)
	if ratios[rounds/2] > most {
		t.Errorf("a volume writes %.3f times what a bare directory does, more than %.2f", ratios[rounds/2], most)
	}
}
