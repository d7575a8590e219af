package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// BusyError is an ErrBusy with the use of the device.
type BusyError struct{ Path, Why string }

func (e *BusyError) Error() string { return e.Path + " is " + e.Why }

// Is reports whether target is ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Busy returns a BusyError if anything uses the device: a mount or swap, a holder such as LVM, md
// or device mapper, one of its partitions, a loop device, or a program that opened it exclusively.
// It returns another error if the device cannot be opened. It writes nothing.
func (m *Machine) Busy(d Device) error {
	x, err := m.take(d, unix.O_RDONLY)
	if err != nil {
		return err
	}
	x.Close()
	return nil
}

// busy explains why the kernel refused an exclusive open.
func (m *Machine) busy(d Device) error {
	if text := m.usedBy(m.attributes(d.Number)); text != "" {
		return &BusyError{d.Path, text}
	}
	return &BusyError{d.Path, "in use: another program, or a mount in another container, has it opened exclusively"}
}

// usedBy returns what uses a device, one of its partitions, or the disk that it is a partition of;
// "" if the kernel's attributes do not show it.
func (m *Machine) usedBy(dir string) string {
	uses := []func(string) string{m.mounted, held, m.swapped}
	by := func(dir, whose string) string {
		for _, why := range uses {
			if text := why(dir); text != "" {
				return whose + text
			}
		}
		return ""
	}
	if text := by(dir, ""); text != "" {
		return text
	}
	for _, part := range partitions(dir) {
		if text := by(part, fmt.Sprintf("in use: its partition %s is ", filepath.Base(part))); text != "" {
			return text
		}
	}
	if partition(dir) > 0 {
		if n, ok := parseNumber(attribute(dir, "dev")); ok {
			return by(m.disk(n), fmt.Sprintf("in use: its disk %s is ", filepath.Base(m.disk(n))))
		}
	}
	return ""
}

// otherPathUsed returns a BusyError if something uses the disk by another path.
func (m *Machine) otherPathUsed(d Device) error {
	for _, n := range d.Twins {
		if text := m.usedBy(m.attributes(n)); text != "" {
			return &BusyError{d.Path, fmt.Sprintf("in use: the device %s reports the same ID %s, and is %s", n, d.ID, text)}
		}
	}
	return nil
}

// mounted returns where a device is mounted, as far as this process sees it.
func (m *Machine) mounted(dir string) string {
	all, err := m.mounts()
	if err != nil {
		return ""
	}
	number := attribute(dir, "dev")
	name := realName(dir)
	for _, one := range all {
		// A btrfs has a number of its own, and names its device as the source.
		if (Number{one.Major, one.Minor}).String() == number || one.Type == "btrfs" && filepath.Base(one.Source) == name {
			return fmt.Sprintf("mounted at %s (%s)", one.Point, one.Type)
		}
	}
	return ""
}

// mounts returns the mounts that this process sees.
func (m *Machine) mounts() ([]mount.Info, error) {
	f, err := os.Open(filepath.Join(m.root, "/proc/self/mountinfo"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return mount.Parse(f)
}

func realName(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	return filepath.Base(real)
}

// held returns which device is made of this one.
func held(dir string) string {
	holders, err := os.ReadDir(filepath.Join(dir, "holders"))
	if err != nil || len(holders) == 0 {
		return ""
	}
	name := holders[0].Name()
	at := filepath.Join(dir, "holders", name)
	switch uuid := attribute(at, "dm/uuid"); {
	case strings.HasPrefix(uuid, "LVM-"):
		return fmt.Sprintf("held by LVM, logical volume %s", attribute(at, "dm/name"))
	case uuid != "" || attribute(at, "dm/name") != "":
		return fmt.Sprintf("held by device mapper, %s", attribute(at, "dm/name"))
	case strings.HasPrefix(name, "md"):
		return fmt.Sprintf("held by md, array %s", name)
	}
	return "held by " + name
}

func (m *Machine) swapped(dir string) string {
	data, err := os.ReadFile(filepath.Join(m.root, "/proc/swaps"))
	if err != nil {
		return ""
	}
	name := realName(dir)
	for line := range strings.Lines(string(data)) {
		if path, _, _ := strings.Cut(line, " "); name != "" && path == "/dev/"+name {
			return "used as swap"
		}
	}
	return ""
}

// partitions returns the kernel's directories of the partitions of a disk.
func partitions(dir string) (all []string) {
	entries, _ := filepath.Glob(filepath.Join(dir, "*", "partition"))
	for _, e := range entries {
		all = append(all, filepath.Dir(e))
	}
	return all
}

// loop returns a BusyError if a loop device is backed by the device, by another path to its disk,
// by a partition of it, or by the disk that it is a partition of. The kubelet attaches one for each
// volume that a pod uses as a block device; a loop device does not keep others from an exclusive
// open. Any other error means that the loop devices cannot be read.
func (m *Machine) loop(d Device) error {
	attached, err := filepath.Glob(filepath.Join(m.root, "/sys/block/loop*/loop"))
	if err != nil {
		return err
	}
	own := append([]Number{d.Number}, d.Twins...)
	for _, at := range attached {
		name := filepath.Base(filepath.Dir(at))
		backing, err := m.backingOf("/dev/" + name)
		switch {
		case errors.Is(err, unix.ENXIO): // detached meanwhile
		case err != nil:
			return fmt.Errorf("read which device /dev/%s is backed by: %w", name, err)
		case slices.ContainsFunc(own, func(n Number) bool { return m.Overlap(backing, n) }):
			return &BusyError{d.Path, fmt.Sprintf("in use: the loop device /dev/%s is backed by %s, "+
				"as for a pod that uses it as a block device", name, m.pathOf(backing))}
		}
	}
	return nil
}

// pathOf is the kernel's path of a device.
func (m *Machine) pathOf(n Number) string {
	if name := realName(m.attributes(n)); name != "" {
		return "/dev/" + name
	}
	return n.String()
}

// backingOf returns the device below a loop device. For a file it is the device of its filesystem,
// which is mounted, and so busy in any case.
func (m *Machine) backingOf(path string) (Number, error) {
	file, err := m.kernel.Open(path, unix.O_RDONLY)
	if err != nil {
		return Number{}, err
	}
	defer file.Close()
	return file.Backing()
}
