package device

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// idFiles are the kernel's attributes with the ID of a disk. SCSI disks have device/wwid, or only a
// serial number, such as those of QEMU without a WWN; NVMe wwid, virtio serial, device mapper and
// md a UUID. The prefix is the kind where the value does not have one.
var idFiles = []struct{ name, kind string }{
	{"wwid", ""}, {"device/wwid", ""}, {"serial", "serial:"}, {"device/serial", "serial:"}, {unitSerial, "serial:"},
	{"dm/uuid", "dm:"}, {"md/uuid", "md:"},
}

// unitSerial is the page of a SCSI disk with its serial number, as the disk sends it: four bytes,
// of which the last two are the length of the rest, and that. See SPC, Unit Serial Number.
const unitSerial = "device/vpd_pg80"

// identify sets ID, Identity and Twins of a device.
func (m *Machine) identify(d *Device) {
	dir, part := m.disk(d.Number), partition(m.attributes(d.Number))
	id, kind := identityIn(dir)
	d.ID, d.Identity = ofPartition(id, part), ofPartition(lasting(kind, id), part)
	if d.Identity == "" {
		return
	}
	d.Twins = m.twins(dir, part, id)
	if len(d.Twins) > 0 && !unique(kind, id) {
		d.Identity = "" // two disks of one serial number, or one disk by two paths
	}
}

// identityIn returns the ID of a disk as the kernel has it, and its kind; "" if there is none.
func identityIn(dir string) (id, kind string) {
	for _, f := range idFiles {
		value := attribute(dir, f.name)
		if f.name == unitSerial {
			value = serialOf(value)
		}
		if id := strings.Join(strings.Fields(value), "_"); id != "" {
			return id, f.kind
		}
	}
	return "", ""
}

// serialOf reads a unitSerial page without the zeros at its begin, which attribute trims: 0x80 and
// the two bytes of the length.
func serialOf(page string) string {
	const code = "\x80"
	_, rest, has := strings.Cut(page, code)
	if !has || len(rest) < 3 {
		return ""
	}
	serial := rest[2:min(len(rest), 2+int(rest[0])<<8+int(rest[1]))]
	return strings.Trim(serial, " \x00")
}

func ofPartition(id string, part int) string {
	if id == "" || part == 0 {
		return id
	}
	return id + "-part" + strconv.Itoa(part)
}

// lasting returns the ID with its kind if it is one of the disk itself, else "". QEMU reports the
// name of the slot, "drive-", for a disk without a serial number.
func lasting(kind, id string) string {
	serial := id[strings.LastIndexAny(id, "_.")+1:]
	if strings.HasPrefix(serial, "drive-") || strings.Trim(serial, "0") == "" {
		return ""
	}
	return kind + id
}

// unique reports whether no two disks have the ID, so that two devices with it are one disk: a WWN
// or a UUID. Serial numbers, and the T10 and NVMe identifiers that contain them, are alike on many
// virtual machines.
func unique(kind, id string) bool {
	if kind == "" {
		return strings.HasPrefix(id, "naa.") || strings.HasPrefix(id, "eui.") || strings.HasPrefix(id, "uuid.")
	}
	return kind == "dm:" || kind == "md:"
}

// twins returns the other disks of the machine with that ID, or their partitions of that number.
func (m *Machine) twins(dir string, part int, id string) (all []Number) {
	disks := filepath.Join(m.root, "/sys/block") // without partitions
	entries, err := os.ReadDir(disks)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		other, err := filepath.EvalSymlinks(filepath.Join(disks, e.Name()))
		if err != nil || other == dir {
			continue
		}
		if theirs, _ := identityIn(other); theirs != id {
			continue
		}
		if part > 0 {
			other = filepath.Join(other, PartitionName(e.Name(), part))
		}
		if n, ok := parseNumber(attribute(other, "dev")); ok {
			all = append(all, n)
		}
	}
	return all
}

// PartitionName is the kernel's name of a partition: a disk whose name ends with a digit has a p
// before the number.
func PartitionName(disk string, part int) string {
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		disk += "p"
	}
	return disk + strconv.Itoa(part)
}

// parseNumber reads MAJOR:MINOR.
func parseNumber(text string) (Number, bool) {
	major, minor, _ := strings.Cut(text, ":")
	a, err1 := strconv.ParseUint(major, 10, 32)
	b, err2 := strconv.ParseUint(minor, 10, 32)
	return Number{uint32(a), uint32(b)}, err1 == nil && err2 == nil
}

// attachment returns the boot of the machine and the sequence of a device; "" before Linux 5.15,
// which gives none.
func (m *Machine) attachment(sequence uint64) string {
	boot, err := os.ReadFile(filepath.Join(m.root, "/proc/sys/kernel/random/boot_id"))
	if err != nil || sequence == 0 {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + strconv.FormatUint(sequence, 10)
}
