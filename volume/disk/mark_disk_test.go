//go:build disk

package disk

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// twoPaths are two devices with one ID, as the first one shows them.
func twoPaths(one, two string) Device {
	d := At(one)
	d.ID, d.Identity, d.Twins = "naa.5000c500a1b2c3d4", "naa.5000c500a1b2c3d4", []Number{At(two).Number}
	return d
}

func wiped(t *testing.T, d Device) error {
	t.Helper()
	x, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	return x.Wipe(t.Context(), Quick, func(Progress) {})
}

const markDisk = 16 * mebibyte

// TestDiskPathsOfOneDisk has two devices with one ID: if they are one disk, it is wiped. If they are
// two, neither has another byte afterwards.
func TestDiskPathsOfOneDisk(t *testing.T) {
	random := make([]byte, markDisk)
	rand.Read(random)
	holed := bytes.Clone(random)
	clear(holed[8192:16384])
	otherEnd := bytes.Clone(holed)
	otherEnd[markDisk-1] ^= 1
	for name, row := range map[string]struct {
		first, second []byte // nil is the same disk
		words         string // of the error, "" if it is wiped
	}{
		"one, blank":                     {first: make([]byte, markDisk)},
		"one, full":                      {first: random},
		"one, with a hole":               {first: holed},
		"two, blank":                     {make([]byte, markDisk), make([]byte, markDisk), "they are two disks"},
		"two, a clone":                   {holed, holed, "they are two disks"},
		"two, a clone without a hole":    {random, random, "they are two disks"},
		"two, the second is blank":       {holed, make([]byte, markDisk), "they are two disks"},
		"two, that differ at the end":    {holed, otherEnd, "they are two disks"},
		"two, and the second is smaller": {make([]byte, markDisk), make([]byte, markDisk-mebibyte), "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			one, image := testdisk.Loop(t, int64(len(row.first)))
			must(t, os.WriteFile(image, row.first, 0o600))
			other := image
			if row.second != nil {
				other = filepath.Join(t.TempDir(), "second")
				must(t, os.WriteFile(other, row.second, 0o600))
			}
			two := testdisk.LoopOn(t, other)
			testdisk.Run(t, "blockdev", "--flushbufs", one)
			err := wiped(t, twoPaths(one, two))
			if row.words == "" && err != nil || row.words != "" && (err == nil || !strings.Contains(err.Error(), row.words)) {
				t.Errorf("%v, want words %q", err, row.words)
			}
			want := [][]byte{row.first, row.second}
			if row.words == "" {
				want[0] = make([]byte, len(row.first))
			}
			for i, path := range []string{image, other}[:1+min(1, len(row.second))] {
				testdisk.Run(t, "blockdev", "--flushbufs", []string{one, two}[i])
				if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want[i]) {
					t.Errorf("disk %d has other bytes, %v", i+1, err)
				}
			}
		})
	}
}

// TestDiskPathThatCannotBeRead has the other path of a disk fail: nothing is written.
func TestDiskPathThatCannotBeRead(t *testing.T) {
	one, image := testdisk.Loop(t, markDisk)
	two := testdisk.LoopOn(t, image)
	d := twoPaths(one, two)
	x, err := Open(d)
	must(t, err)
	defer x.Close()
	for _, f := range x.others {
		f.Close()
	}
	x.others = nil
	testdisk.DetachLoop(t, two)
	if err := x.Wipe(t.Context(), Quick, func(Progress) {}); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Error(err)
	}
	if got, err := os.ReadFile(image); err != nil || notZero(got) >= 0 {
		t.Errorf("something was written, %v", err)
	}
}

// TestDiskMarkIsLeft has a process end between the mark and the wipe: the mark is no data, and the
// next process wipes the disk.
func TestDiskMarkIsLeft(t *testing.T) {
	one, image := testdisk.Loop(t, markDisk)
	d := twoPaths(one, testdisk.LoopOn(t, image))
	for range 2 {
		x, err := Open(d)
		must(t, err)
		at, err := x.markPlace(t.Context())
		must(t, err)
		_, err = x.putMark(t.Context(), at)
		must(t, err)
		if at.from != 0 {
			t.Errorf("the mark is at %d: a former mark is no data", at.from)
		}
		remains, err := x.Remains(t.Context())
		if err != nil || remains.Found() {
			t.Errorf("remains %s, %v", remains, err)
		}
		x.Close()
		if found, err := Probe(t.Context(), d, Zero); err != nil || found.Found() {
			t.Errorf("found %s, %v", found, err)
		}
		if found, err := Blank(t.Context(), d, true); err != nil || found.Found() {
			t.Errorf("not blank: %s, %v", found, err)
		}
	}
	must(t, wiped(t, d))
	if got, err := os.ReadFile(image); err != nil || notZero(got) >= 0 {
		t.Errorf("the mark is not wiped, %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
