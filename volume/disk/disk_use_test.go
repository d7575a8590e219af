//go:build disk

package disk

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// The path leads to another device, or the number to another disk, than List saw.
func TestDiskChanged(t *testing.T) {
	d, other := attach(t, mebibyte), attach(t, mebibyte)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Device){
		"path":   func(d *Device) { d.Path = other.Path },
		"number": func(d *Device) { d.Number.Minor++ },
		"size":   func(d *Device) { d.Bytes += 512 },
		"begin":  func(d *Device) { d.Start += 512 },
		"disk":   func(d *Device) { d.Sequence++ },
		"file":   func(d *Device) { d.Path = file },
	} {
		wrong := d
		change(&wrong)
		if x, err := Open(wrong); !errors.Is(err, ErrChanged) && !errors.Is(err, ErrNotADevice) {
			t.Errorf("another %s: opened %v, error %v", name, x, err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || !bytes.Equal(data, []byte("data")) {
		t.Errorf("the file has %q (%v)", data, err)
	}
}

// A disk in use is never opened to be wiped, and the error names the use.
func TestDiskBusy(t *testing.T) {
	for name, row := range map[string]struct {
		use  func(*testing.T, string)
		want string
	}{
		"mounted": {func(t *testing.T, path string) {
			testdisk.Run(t, "mkfs.ext4", "-q", path)
			dir := t.TempDir()
			testdisk.Run(t, "mount", path, dir)
			t.Cleanup(func() { testdisk.Detach(t, dir) })
		}, "mounted at .*ext4"},
		"a loop device": {func(t *testing.T, path string) { testdisk.LoopOn(t, path) },
			"loop device /dev/loop.* is backed by /dev/loop"},
		"swap": {func(t *testing.T, path string) {
			testdisk.Run(t, "mkswap", path)
			if err := swap(path, true); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := swap(path, false); err != nil {
					t.Error(err)
				}
			})
		}, "used as swap"},
		"exclusively": {func(t *testing.T, path string) {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Close(fd) })
		}, "exclusively"},
		"locked": {func(t *testing.T, path string) {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}, "locked"},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := testdisk.Loop(t, 64*mebibyte)
			d := linked(t, path)
			if err := Busy(d); err != nil {
				t.Fatal(err)
			}
			row.use(t, path)
			_, opened := Open(d)
			for _, err := range []error{Busy(d), opened} {
				if !errors.Is(err, ErrBusy) || !regexp.MustCompile(row.want).MatchString(fmt.Sprint(err)) {
					t.Errorf("%v, want an ErrBusy with words like %q", err, row.want)
				}
			}
		})
	}
}

// parted attaches a disk of 64 MiB with a partition of that size, which begins at the first MiB. It
// returns their paths.
func parted(t *testing.T, length int64) (path, part string) {
	t.Helper()
	_, image := testdisk.Loop(t, 64*mebibyte)
	path = testdisk.LoopOn(t, image, "--partscan")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := addPartition(int(f.Fd()), mebibyte, length); err != nil {
		t.Fatal(err)
	}
	parts := partitions(this.attributes(At(path).Number))
	if len(parts) != 1 {
		t.Fatalf("partitions %q", parts)
	}
	n, ok := parseNumber(attribute(parts[0], "dev"))
	part = filepath.Join(t.TempDir(), "part")
	if err := unix.Mknod(part, unix.S_IFBLK|0o600, int(unix.Mkdev(n.Major, n.Minor))); err != nil || !ok {
		t.Fatal(err)
	}
	return path, part
}

// A pod uses a disk or a partition as a block device, for which the kubelet attaches a loop device:
// neither the disk nor the partition is opened to be wiped.
func TestDiskPartitionUsedByAPod(t *testing.T) {
	path, part := parted(t, 32*mebibyte)
	for _, used := range []string{path, part} {
		pod := testdisk.LoopOn(t, used)
		for _, other := range []string{path, part} {
			if _, err := Open(At(other)); !errors.Is(err, ErrBusy) ||
				!strings.Contains(err.Error(), "the loop device "+pod+" is backed by /dev/loop") {
				t.Errorf("a pod uses %s, and %s is opened with %v", used, other, err)
			}
		}
		testdisk.DetachLoop(t, pod)
	}
}

// A disk is mounted as a whole, and an old partition of it is there: the error of the partition
// names the mount.
func TestDiskMountedBesideAPartition(t *testing.T) {
	path, part := parted(t, 32*mebibyte)
	d := At(part)
	testdisk.Run(t, "mkfs.ext4", "-q", "-F", path)
	dir := t.TempDir()
	testdisk.Run(t, "mount", path, dir)
	defer testdisk.Detach(t, dir)
	for _, err := range []error{Busy(d), func() error { _, err := Probe(t.Context(), d, Zero); return err }()} {
		if !errors.Is(err, ErrBusy) || !regexp.MustCompile("its disk loop.* is mounted at").MatchString(fmt.Sprint(err)) {
			t.Errorf("%v, want an ErrBusy that names the disk's mount", err)
		}
	}
}

// The kernel shows the first KiB of an extended partition, in which the logical partitions are: it
// is never offered.
func TestDiskExtendedPartition(t *testing.T) {
	_, part := parted(t, 1024)
	if d := At(part); d.Err == nil || !strings.Contains(d.Err.Error(), "extended") {
		t.Errorf("%+v", d)
	}
}

// A partition that is mounted keeps its disk.
func TestDiskPartitionMounted(t *testing.T) {
	path, node := parted(t, 32*mebibyte)
	d := At(path)
	if p := At(node); p.Err != nil || p.Bytes != 32*mebibyte || p.Number == d.Number {
		t.Errorf("the partition is %+v", p)
	}
	testdisk.Run(t, "mkfs.ext4", "-q", node)
	dir := t.TempDir()
	testdisk.Run(t, "mount", node, dir)
	defer testdisk.Detach(t, dir)
	if _, err := Open(d); !errors.Is(err, ErrBusy) ||
		!regexp.MustCompile("partition .* mounted at").MatchString(err.Error()) {
		t.Errorf("%v, want an ErrBusy that names the partition", err)
	}
	testdisk.Detach(t, dir)
	x := exclusively(t, d)
	if err := x.Wipe(t.Context(), Zero, nothing); err != nil {
		t.Fatal(err)
	}
	if parts := partitions(this.attributes(d.Number)); len(parts) > 0 {
		t.Errorf("the kernel still has %q of the wiped disk", parts)
	}
}

// What real tools write is found.
func TestDiskSignatures(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		d := At(testdisk.LoopOn(t, testdisk.Image(t, kind)))
		if s, err := Probe(t.Context(), d, Zero); err != nil || s.Kind != Filesystem {
			t.Errorf("%s: found %s (%v)", kind, s, err)
		}
	}
	d := attach(t, 8*mebibyte)
	if s, err := Probe(t.Context(), d, Zero); err != nil || s.Found() {
		t.Errorf("a blank disk: found %s (%v)", s, err)
	}
	write(t, d, "x", 8*mebibyte-1)
	if s, err := Probe(t.Context(), d, Zero); err != nil || s.Kind != Unknown {
		t.Errorf("found %s (%v), want data without a signature", s, err)
	}
}

// Data of some size is found wherever it is, unless the mode leaves it in any case.
func TestDiskSamples(t *testing.T) {
	const size = 4 << 40
	d := attach(t, size)
	write(t, d, strings.Repeat("x", int(mebibyte)), 3<<40)
	for mode, want := range map[Mode]Kind{Zero: Unknown, Discard: Unknown, Quick: ""} {
		if s, err := Probe(t.Context(), d, mode); err != nil || s.Kind != want || s.Found() && s.Offset != 3<<40 {
			t.Errorf("%s: found %s (%v), want the kind %q", mode, s, err, want)
		}
	}
}

// A disk with two paths is mounted by one of them, in a mount namespace that this process does not
// see. The kernel's claim is on that path alone, and the other one is not opened.
func TestDiskMountedByAnotherPath(t *testing.T) {
	one, image := testdisk.Loop(t, 64*mebibyte)
	two := testdisk.LoopOn(t, image)
	testdisk.Run(t, "mkfs.ext4", "-q", two)
	end := mountElsewhere(t, two)
	d, other := At(one), At(two)
	d.ID, d.Identity, d.Twins = "naa.5000c500a1b2c3d4", "naa.5000c500a1b2c3d4", []Number{other.Number}
	for name, err := range map[string]error{"busy": Busy(d), "opened": opened(d), "the mounted path": opened(other)} {
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v, want an ErrBusy", name, err)
		}
	}
	end()
	if err := opened(d); err != nil {
		t.Error(err)
	}
	// While the disk is open, the other path cannot be mounted.
	x, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := Busy(other); !errors.Is(err, ErrBusy) {
		t.Errorf("the other path during a wipe: %v", err)
	}
	x.Close()
	if err := Busy(other); err != nil {
		t.Errorf("after the wipe: %v", err)
	}
}

// opened opens a device to be wiped, and closes it.
func opened(d Device) error {
	x, err := Open(d)
	if err == nil {
		x.Close()
	}
	return err
}

// mountElsewhere mounts a device in another mount namespace.
func mountElsewhere(t *testing.T, device string) (end func()) {
	t.Helper()
	host := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		"mount "+device+" "+t.TempDir()+" && echo mounted && read end")
	in, err1 := host.StdinPipe()
	out, err2 := host.StdoutPipe()
	if err := errors.Join(err1, err2, host.Start()); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { in.Close(); _ = host.Wait() })
	t.Cleanup(end)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "mounted\n" {
		t.Fatal(line, err)
	}
	return end
}

// What lies on a disk in use is not opened: a loop device over a part of it, as a logical volume
// would be, and the disk is not while something lies on it.
func TestDiskStackedInUse(t *testing.T) {
	path, _ := testdisk.Loop(t, 64*mebibyte)
	top := testdisk.LoopOn(t, path, "--offset", "1048576", "--sizelimit", "2097152")
	if !Overlap(At(path).Number, At(top).Number) || !Overlap(At(top).Number, At(path).Number) {
		t.Error("what lies on a disk is taken for another one")
	}
	if err := opened(At(path)); !errors.Is(err, ErrBusy) {
		t.Errorf("the disk below a loop device: %v", err)
	}
	if err := opened(At(top)); err != nil {
		t.Errorf("a loop device over a disk that nothing else uses: %v", err)
	}
	testdisk.Run(t, "mkfs.ext4", "-q", path)
	mountElsewhere(t, path)
	if err := opened(At(top)); !errors.Is(err, ErrBusy) {
		t.Errorf("a loop device over a disk that is mounted elsewhere: %v", err)
	}
}

// Two partitions of a disk are two, and each has an attachment of its own.
func TestDiskPartitionsAreTwo(t *testing.T) {
	_, image := testdisk.Loop(t, 64*mebibyte)
	path := testdisk.LoopOn(t, image, "--partscan")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range int32(2) {
		part := unix.BlkpgPartition{Start: mebibyte + int64(i)*16*mebibyte, Length: 16 * mebibyte, Pno: i + 1}
		arg := unix.BlkpgIoctlArg{Op: unix.BLKPG_ADD_PARTITION, Datalen: int32(unsafe.Sizeof(part)), Data: (*byte)(unsafe.Pointer(&part))}
		if err := ioctl(int(f.Fd()), unix.BLKPG, unsafe.Pointer(&arg)); err != nil {
			t.Fatal(err)
		}
	}
	var all []Device
	for _, dir := range partitions(this.attributes(At(path).Number)) {
		n, _ := parseNumber(attribute(dir, "dev"))
		node := filepath.Join(t.TempDir(), "part")
		if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(n.Major, n.Minor))); err != nil {
			t.Fatal(err)
		}
		all = append(all, At(node))
	}
	if len(all) != 2 || all[0].Attachment == all[1].Attachment || Overlap(all[0].Number, all[1].Number) ||
		!Overlap(all[0].Number, At(path).Number) {
		t.Errorf("%+v", all)
	}
	for _, used := range []string{path, all[0].Path} {
		pod := testdisk.LoopOn(t, used)
		if err := opened(all[1]); errors.Is(err, ErrBusy) != (used == path) {
			t.Errorf("a pod uses %s, and the second partition is opened with %v", used, err)
		}
		testdisk.DetachLoop(t, pod)
	}
}
