//go:build vm

package disk

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/diskid"
)

// One LUN of the machine by two paths, and two disks with one ID.
const (
	lunWWN    = "naa.5000c500a0000009"
	lunMapped = "mpath-35000c500a0000009"
	cloneWWN  = "naa.5000c500a000000b"
)

// pathsOf returns the two devices that have an ID. The kernel names disks as it finds them.
func pathsOf(t *testing.T, id string) (one, two string) {
	t.Helper()
	all, err := filepath.Glob("/sys/block/sd*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, dir := range all {
		if path := "/dev/" + filepath.Base(dir); At(path).ID == id {
			found = append(found, path)
		}
	}
	if len(found) != 2 {
		t.Fatalf("%s has %q", id, found)
	}
	return found[0], found[1]
}

// busyVM fails the test unless something uses the device, or nothing does.
func busyVM(t *testing.T, path, words string) {
	t.Helper()
	x, err := Open(At(path))
	if err == nil {
		x.Close()
	}
	if errors.Is(err, ErrBusy) != (words != "") || err != nil && !strings.Contains(err.Error(), words) {
		t.Errorf("%s is opened with %v, want an error with %q", path, err, words)
	}
}

// A LUN that is mounted by one path is not opened by the other one.
func TestVMTwoPaths(t *testing.T) {
	path1, path2 := pathsOf(t, lunWWN)
	for _, path := range []string{path1, path2} {
		if d := At(path); d.Identity != lunWWN || len(d.Twins) != 1 {
			t.Fatalf("%+v", d)
		}
		busyVM(t, path, "")
	}
	fd, err := unix.Open(path2, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0) // as a mount has it
	if err != nil {
		t.Fatal(err)
	}
	busyVM(t, path1, path2+" is the same disk")
	if found, err := Idle(lunWWN); !found || !errors.Is(err, ErrBusy) {
		t.Errorf("a LUN in use: %v, %v", found, err)
	}
	unix.Close(fd)
	if found, err := Idle(lunWWN); !found || err != nil {
		t.Errorf("a LUN that nothing uses: %v, %v", found, err)
	}
	x, err := Open(At(path1))
	if err != nil {
		t.Fatal(err)
	}
	busyVM(t, path2, "exclusively")
	if err := x.Wipe(t.Context(), Quick, func(Progress) {}); err != nil {
		t.Errorf("a LUN by two paths: %v", err)
	}
	x.Close()
}

// Two disks of one size have one WWN, as cloned images have: neither is wiped, nor has another byte.
func TestVMTwoDisksOfOneID(t *testing.T) {
	one, _ := pathsOf(t, cloneWWN)
	d := At(one)
	if d.Identity != cloneWWN || len(d.Twins) != 1 {
		t.Fatalf("%+v", d)
	}
	x, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Wipe(t.Context(), Quick, func(Progress) {}); err == nil || !strings.Contains(err.Error(), "they are two disks") {
		t.Error(err)
	}
	if found, err := x.Remains(t.Context()); err != nil || found.Found() {
		t.Errorf("%s, %v", found, err)
	}
	x.Close()
}

// dm-multipath joins the paths, and kpartx maps a partition: here with the same bytes by linear
// targets, under the names that these programs give.
func TestVMMultipath(t *testing.T) {
	path1, path2 := pathsOf(t, lunWWN)
	half := At(path1).Bytes / 2
	release := linear(t, "lun", lunMapped, part{path1, 0, half}, part{path2, half, half})
	joined := At("/dev/dm-0")
	if joined.Identity != lunWWN || !slices.Equal(joined.Shared(), []string{lunWWN}) || len(joined.Stack.Paths) != 2 {
		t.Fatalf("%+v", joined)
	}
	busyVM(t, joined.Path, "")
	if x, err := Open(joined); err != nil {
		t.Error(err)
	} else {
		if err := x.Wipe(t.Context(), Quick, func(Progress) {}); err != nil {
			t.Errorf("a LUN that dm-multipath joins: %v", err)
		}
		x.Close()
	}
	busyVM(t, path1, "held by device mapper, lun")
	if d := At(path1); !d.Joined || joined.Joined {
		t.Errorf("%+v", d)
	}
	if found, err := Idle(lunWWN); !found || err != nil {
		t.Errorf("a LUN that nothing uses: %v, %v", found, err)
	}
	unmap := linear(t, "lun1", "part1-"+lunMapped, part{joined.Path, mebibyte, 8 * mebibyte})
	mapped := At("/dev/dm-1")
	if mapped.Identity != lunWWN+"-part1" || !Overlap(mapped.Number, joined.Number) || !Overlap(At(path2).Number, mapped.Number) ||
		!joined.Shares(diskid.Parse(mapped.Identity)) || !slices.Equal(mapped.Shared(), []string{lunWWN}) {
		t.Errorf("%+v", mapped)
	}
	busyVM(t, mapped.Path, "")
	busyVM(t, joined.Path, "held by device mapper, lun1")
	unmap()
	// Two logical volumes of one disk are two.
	a := linear(t, "vg-a", "LVM-a", part{joined.Path, mebibyte, 8 * mebibyte})
	b := linear(t, "vg-b", "LVM-b", part{joined.Path, 16 * mebibyte, 8 * mebibyte})
	one, two := At("/dev/dm-1"), At("/dev/dm-2")
	if Overlap(one.Number, two.Number) || !Overlap(one.Number, At(path1).Number) || !slices.Equal(one.Shared(), []string{lunWWN}) {
		t.Errorf("%+v and %+v", one, two)
	}
	fd, err := unix.Open(two.Path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	busyVM(t, one.Path, "")
	busyVM(t, two.Path, "exclusively")
	if found, err := Idle(lunWWN); !found || !errors.Is(err, ErrBusy) {
		t.Errorf("a LUN with logical volumes: %v, %v", found, err)
	}
	unix.Close(fd)
	b()
	a()
	release()
}
