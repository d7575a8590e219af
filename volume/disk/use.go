package disk

import (
	"cmp"
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

// Idle reports whether the machine has a disk with the ID by which other nodes know it; see
// diskid.ID.Shared. The error is ErrBusy if something uses the disk by any path, or says why that is
// not known. It writes nothing.
func (m *Machine) Idle(shared string) (found bool, err error) {
	v := m.view()
	if v.err != nil {
		return false, v.err
	}
	paths := slices.DeleteFunc(slices.Clone(v.disks), func(n Number) bool { return v.ids[n].Shared() != shared })
	for _, n := range paths {
		dir := m.attributes(n)
		other := held(dir, func(holder Number) bool { return slices.Contains(paths, holder) })
		if other == "" && held(dir, func(Number) bool { return false }) != "" {
			continue // another path holds it: that of dm-multipath, or a partition of kpartx
		}
		d := v.at(m.pathOf(n))
		if err := cmp.Or(d.Err, m.Busy(d)); err != nil {
			return true, err
		}
	}
	return len(paths) > 0, nil
}

// Boot returns the ID of the present boot of the machine, "" if it is not known.
func (m *Machine) Boot() string {
	boot, err := os.ReadFile(filepath.Join(m.root, "/proc/sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot))
}

// busy explains why the kernel refused an exclusive open.
func (m *Machine) busy(d Device) error {
	if text := m.usedBy(d, m.view().stack(d.Number, d.Twins...)); text != "" {
		return &BusyError{d.Path, text}
	}
	return &BusyError{d.Path, "in use: another program, or a mount in another container, has it opened exclusively"}
}

// usedBy returns what uses a device or another one of its Stack, "" if the kernel's attributes do
// not show it. That a device of the Stack holds one below it is no use.
func (m *Machine) usedBy(d Device, s Stack) string {
	by := func(n Number, words string, uses ...func(string) string) string {
		for _, why := range uses {
			if text := why(m.attributes(n)); text != "" {
				return words + text
			}
		}
		return ""
	}
	byAny := func(dir string) string { return held(dir, func(Number) bool { return false }) }
	held := func(dir string) string {
		return held(dir, func(holder Number) bool { return holder == d.Number || s.under(holder) })
	}
	found := []string{by(d.Number, "", m.mounted, byAny, m.swapped)}
	for _, l := range s.Paths {
		words := fmt.Sprintf("in use: the device %s reports the same ID %s, and is ", l.Number, d.ID)
		found = append(found, by(l.Number, words, m.mounted, held, m.swapped))
	}
	for _, l := range s.Above {
		if dir := m.attributes(l.Number); partition(dir) > 0 {
			words := fmt.Sprintf("in use: its partition %s is ", realName(dir))
			found = append(found, by(l.Number, words, m.mounted, held, m.swapped))
		}
	}
	for _, l := range s.Below {
		name := realName(m.attributes(l.Number))
		if m.diskOf(d.Number) == l.Number {
			found = append(found, by(l.Number, fmt.Sprintf("in use: its disk %s is ", name), m.mounted, held, m.swapped))
			continue
		}
		found = append(found, by(l.Number, fmt.Sprintf("in use: it lies on %s, which is ", name), m.mounted, m.swapped))
	}
	for _, loop := range s.loops {
		words := fmt.Sprintf("in use: the loop device %s is backed by ", m.pathOf(loop))
		found = append(found, words+m.backingPath(loop)+", as for a pod that uses it as a block device")
	}
	for _, text := range found {
		if text != "" {
			return text
		}
	}
	return ""
}

// backingPath returns the kernel's path of the device behind a loop device.
func (m *Machine) backingPath(loop Number) string {
	if backing, err := m.backingOf(m.pathOf(loop)); err == nil {
		return m.pathOf(backing)
	}
	return "the disk" // detached meanwhile
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

// held returns which device is made of this one, except for those that do not count.
func held(dir string, except func(Number) bool) string {
	holders, err := os.ReadDir(filepath.Join(dir, "holders"))
	holders = slices.DeleteFunc(holders, func(e os.DirEntry) bool {
		n, known := parseNumber(attribute(filepath.Join(dir, "holders", e.Name()), "dev"))
		return known && except(n)
	})
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

// pathOf is the kernel's path of a device.
func (m *Machine) pathOf(n Number) string {
	if name := realName(m.attributes(n)); name != "" {
		return "/dev/" + name
	}
	return n.String()
}

// backingOf returns the device below a loop device. The errors are those of File.Backing.
func (m *Machine) backingOf(path string) (Number, error) {
	file, err := m.kernel.Open(path, unix.O_RDONLY)
	if err != nil {
		return Number{}, err
	}
	defer file.Close()
	return file.Backing()
}
