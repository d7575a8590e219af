package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotADevice is the error of a path that is something else, such as a regular file.
	ErrNotADevice = errors.New("not a block device")
	// ErrBusy is the error of a device that something uses.
	ErrBusy = errors.New("in use")
	// ErrChanged is the error of a path that leads to another device than before.
	ErrChanged = errors.New("no longer the same device")
)

// Number is the major and minor number of a device. It identifies the device while it is attached.
type Number struct{ Major, Minor uint32 }

func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// Device is a block device that a path leads to.
type Device struct {
	// Path is how the device was found; it may be a link.
	Path string
	// Number and Sequence identify the attached device. The kernel gives every attached disk
	// another sequence; it is 0 before Linux 5.15, and for partitions the disk's.
	Number   Number
	Sequence uint64
	// Attachment is the boot of the machine and the Sequence, with the number of a partition, ""
	// if either is unknown. It is another one after a boot, and after the disk was taken out and put
	// back.
	Attachment string
	// Bytes is the size.
	Bytes int64
	// Start is where a partition begins on its disk, in bytes; 0 for a whole disk. Another partition
	// table can have another partition of the number.
	Start int64
	// ReadOnly and Removable are attributes of the kernel.
	ReadOnly, Removable bool
	// ID is the WWN or the serial number, with the number of a partition, or "" if the kernel
	// knows neither. It is for people: some disks share one.
	ID string
	// Identity is the ID with its kind if it stays with the disk and no other here has it, else "".
	Identity string
	// Twins are other devices of this machine that report the same ID: other paths to the same
	// disk, unless their maker gave two disks one serial number.
	Twins []Number
	// Joined is set if dm-multipath joins the device with other paths to its disk. Only the device
	// that it makes of them can be opened exclusively then.
	Joined bool
	// Stack is everything that is the device, wholly or in part.
	Stack Stack
	// Err is why the path cannot be used as a device, or nil.
	Err error
}

// extendedBytes is the most that the kernel shows of an extended partition, which holds logical
// partitions and no data: 1 KiB, or one block of the disk. See msdos_partition in Linux's
// block/partitions/msdos.c.
const extendedBytes = 4096

// Resolve returns the number of the device that the path leads to. It does not open the device.
// The error is ErrNotADevice if the path leads to something else.
func (m *Machine) Resolve(path string) (Number, error) { return m.kernel.Resolve(path) }

// At reads the device that the path leads to. It never opens what is not a block device. A device
// that cannot be read has an Err.
func (m *Machine) At(path string) Device { return m.view().at(path) }

func (v *view) at(path string) Device {
	d := Device{Path: path}
	if d.Number, d.Err = v.Resolve(path); d.Err != nil {
		return d
	}
	file, err := v.openSame(path, unix.O_RDONLY, d.Number)
	if err != nil {
		d.Err = err
		return d
	}
	defer file.Close()
	d.Sequence = file.Sequence()
	d.Attachment = ofPartition(v.attachment(d.Sequence), partition(v.attributes(d.Number)))
	d.Start = v.start(d.Number)
	if d.Bytes, d.Err = file.Size(); d.Err != nil {
		d.Err = &os.PathError{Op: "read the size of", Path: path, Err: d.Err}
		return d
	}
	if d.Bytes == 0 {
		d.Err = fmt.Errorf("%s: no medium: the size is 0", path)
		return d
	}
	if d.Bytes <= extendedBytes && partition(v.attributes(d.Number)) > 0 {
		d.Err = fmt.Errorf("%s: a partition of %d bytes is an extended one: "+
			"its logical partitions can be offered, and it cannot", path, d.Bytes)
		return d
	}
	d.ReadOnly, d.Removable = file.ReadOnly(), v.removable(d.Number)
	v.identify(&d)
	return d
}

// openSame opens the path and returns the file if it is the block device with that number. The
// caller closes it.
func (m *Machine) openSame(path string, flags int, n Number) (File, error) {
	file, err := m.kernel.Open(path, flags)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	now, err := file.Number()
	if err != nil && !errors.Is(err, ErrNotADevice) {
		file.Close()
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err != nil || now != n {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrChanged)
	}
	return file, nil
}

// attributes is the kernel's directory of a device.
func (m *Machine) attributes(n Number) string {
	return filepath.Join(m.root, "/sys/dev/block", n.String())
}

// attribute reads one, "" if the device does not have it.
func attribute(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.Trim(string(data), " \t\n\x00")
}

// partition returns the number of a partition on its disk, 0 for a whole disk.
func partition(dir string) int {
	n, _ := strconv.Atoi(attribute(dir, "partition")) // a disk has no such attribute
	return n
}

// start returns where a partition begins on its disk, 0 if the device is none.
func (m *Machine) start(n Number) int64 {
	sectors, _ := strconv.ParseInt(attribute(m.attributes(n), "start"), 10, 64) // only partitions have it
	return sectors * 512
}

func (m *Machine) disk(n Number) string {
	dir := m.attributes(n)
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case err != nil:
		return dir
	case partition(dir) > 0:
		return filepath.Dir(real)
	}
	return real
}

// Overlap reports whether two numbers are one device, or one of them is in the Stack of the other.
func (m *Machine) Overlap(a, b Number) bool {
	v := m.view()
	return a == b || v.stack(a).Has(b) || v.stack(b).Has(a)
}

// diskOf returns the disk of a partition, and other devices as they are.
func (m *Machine) diskOf(n Number) Number {
	if disk, ok := parseNumber(attribute(m.disk(n), "dev")); ok {
		return disk
	}
	return n
}

func (m *Machine) removable(n Number) bool { return attribute(m.disk(n), "removable") == "1" }
