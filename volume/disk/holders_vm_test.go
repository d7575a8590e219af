//go:build vm

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The disks of the machine, which e2e/vm makes: two with a partition that has an ext4 filesystem,
// and two that are blank.
const (
	diskDOS, diskGPT = "/dev/vda", "/dev/vdb"
	blank, blankToo  = "/dev/vdc", "/dev/vdd"
)

// A disk that device mapper or md holds is never opened to be wiped, and the error names the
// holder. These are the calls that LVM, cryptsetup and mdadm make of the kernel.
func TestVMHolders(t *testing.T) {
	for name, row := range map[string]struct {
		disk, want string
		hold       func(t *testing.T, path string) (release func())
	}{
		"LVM": {blank, "held by LVM, logical volume vg-lv$", func(t *testing.T, path string) func() {
			return mapped(t, "vg-lv", "LVM-FsTnJJ", path)
		}},
		"dm-crypt": {blank, "held by device mapper, secret$", func(t *testing.T, path string) func() {
			return mapped(t, "secret", "CRYPT-LUKS2-1", path)
		}},
		"LVM on a partition": {diskDOS, "its partition vda1 is held by LVM, logical volume vg-part$",
			func(t *testing.T, path string) func() {
				return mapped(t, "vg-part", "LVM-wqpAlW", path+"1")
			}},
		"md": {blankToo, "held by md, array md127$", func(t *testing.T, path string) func() {
			return mirrored(t, path, blank)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := At(row.disk)
			if err := Busy(d); err != nil {
				t.Fatal(err)
			}
			release := row.hold(t, row.disk)
			_, opened := Open(d)
			for _, err := range []error{Busy(d), opened} {
				if !errors.Is(err, ErrBusy) || !regexp.MustCompile(row.want).MatchString(fmt.Sprint(err)) {
					t.Errorf("%v, want an ErrBusy with words like %q", err, row.want)
				}
			}
			release()
			x, err := Open(d)
			if err != nil {
				t.Fatal(err)
			}
			x.Close()
		})
	}
}

// A disk with a partition table is known by it, is busy while a partition is mounted, and loses its
// partitions by the wipe.
func TestVMPartitions(t *testing.T) {
	for path, table := range map[string]string{diskDOS: "DOS", diskGPT: "GPT"} {
		t.Run(table, func(t *testing.T) {
			d, part := At(path), At(path+"1")
			if d.Err != nil || part.Err != nil || !Overlap(d.Number, part.Number) || part.Bytes >= d.Bytes {
				t.Fatalf("%+v and its partition %+v", d, part)
			}
			if s, err := Probe(t.Context(), d, Zero); err != nil || s.Kind != PartitionTable || s.Name != table {
				t.Errorf("found %s (%v)", s, err)
			}
			if s, err := Probe(t.Context(), part, Zero); err != nil || s.Kind != Filesystem {
				t.Errorf("found %s (%v) on the partition", s, err)
			}
			dir := t.TempDir()
			if err := unix.Mount(part.Path, dir, "ext4", 0, ""); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte("data"), 0o600); err != nil {
				t.Error(err)
			}
			want := "its partition " + filepath.Base(part.Path) + " is mounted at .*ext4"
			for _, d := range []Device{d, part} {
				if _, err := Open(d); !errors.Is(err, ErrBusy) || d.Path == path &&
					!regexp.MustCompile(want).MatchString(err.Error()) {
					t.Errorf("%s: %v, want an ErrBusy", d.Path, err)
				}
			}
			if data, err := os.ReadFile(filepath.Join(dir, "file")); string(data) != "data" {
				t.Errorf("the file has %q (%v)", data, err)
			}
			if err := unix.Unmount(dir, 0); err != nil {
				t.Fatal(err)
			}
			x, err := Open(d)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if err := x.Wipe(t.Context(), Quick, func(Progress) {}); err != nil {
				t.Fatal(err)
			}
			if parts := partitions(this.attributes(d.Number)); len(parts) > 0 {
				t.Errorf("the kernel still has %q of the wiped disk", parts)
			}
			if s, err := x.Signature(t.Context(), Zero); err != nil || s.Found() {
				t.Errorf("found %s (%v) after the wipe", s, err)
			}
		})
	}
}

// mapped makes a device of device mapper that is the whole of another device, as a logical volume
// of LVM is; see <linux/dm-ioctl.h>.
func mapped(t *testing.T, name, uuid, path string) (release func()) {
	t.Helper()
	return linear(t, name, uuid, part{path, 0, At(path).Bytes})
}

// part is a range of bytes of a device.
type part struct {
	path        string
	from, bytes int64
}

// linear makes a device of device mapper of parts of others.
func linear(t *testing.T, name, uuid string, parts ...part) (release func()) {
	t.Helper()
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	const header, target = 312, 40
	call := func(command uint, id string, targets uint32, table []byte) {
		t.Helper()
		arg := make([]byte, header+len(table))
		binary.NativeEndian.PutUint32(arg, 4) // version 4.0.0
		binary.NativeEndian.PutUint32(arg[12:], uint32(len(arg)))
		binary.NativeEndian.PutUint32(arg[16:], header)
		binary.NativeEndian.PutUint32(arg[20:], targets)
		copy(arg[48:48+127], name)
		copy(arg[176:176+128], id)
		copy(arg[header:], table)
		if err := ioctl(int(control.Fd()), 0xc138fd00|command, unsafe.Pointer(&arg[0])); err != nil {
			t.Fatalf("call %d of device mapper for %s: %v", command, name, err)
		}
	}
	const create, remove, suspend, load = 3, 4, 6, 9
	var table []byte
	begin := int64(0)
	for _, p := range parts {
		spec := make([]byte, target+24)
		binary.NativeEndian.PutUint64(spec, uint64(begin/512))
		binary.NativeEndian.PutUint64(spec[8:], uint64(p.bytes/512))
		binary.NativeEndian.PutUint32(spec[20:], uint32(len(spec)))
		copy(spec[24:], "linear")
		copy(spec[target:], fmt.Sprintf("%s %d", At(p.path).Number, p.from/512))
		table, begin = append(table, spec...), begin+p.bytes
	}
	call(create, uuid, 0, nil)
	call(load, "", uint32(len(parts)), table)
	call(suspend, "", 0, nil) // without a flag it resumes, and the table is in force
	return func() {
		call(remove, "", 0, nil)
		control.Close()
	}
}

// mirrored makes an array of two disks, as mdadm --build does; see <linux/raid/md_u.h>.
func mirrored(t *testing.T, paths ...string) (release func()) {
	t.Helper()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("new array", os.WriteFile("/sys/module/md_mod/parameters/new_array", []byte("md127"), 0o200))
	array, err := os.OpenFile("/dev/md127", os.O_RDWR, 0)
	must("open array", err)
	const setInfo, addDisk, run, stop = 0x40480923, 0x40140921, 0x400c0930, 0x932
	// clean, no superblock
	info := [18]int32{0: 0, 1: 90, 4: 1, 6: int32(len(paths)), 7: int32(len(paths)), 8: 127, 9: 1, 11: 1}
	must("set array info", ioctl(int(array.Fd()), setInfo, unsafe.Pointer(&info)))
	for i, path := range paths {
		n, err := Resolve(path)
		must("member", err)
		member := [5]int32{int32(i), int32(n.Major), int32(n.Minor), int32(i), 1<<1 | 1<<2} // active and in sync
		must("add member", ioctl(int(array.Fd()), addDisk, unsafe.Pointer(&member)))
	}
	var param [3]int32
	must("run array", ioctl(int(array.Fd()), run, unsafe.Pointer(&param)))
	return func() {
		must("stop array", ioctl(int(array.Fd()), stop, nil))
		array.Close()
	}
}
