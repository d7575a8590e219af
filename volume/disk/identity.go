package disk

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/diskid"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// idFiles are the kernel's attributes with the ID of a disk. SCSI disks have device/wwid, or only a
// serial number, such as those of QEMU without a WWN; NVMe wwid, virtio serial, device mapper and
// md a UUID. The prefix is the kind where the value does not have one.
var idFiles = []struct{ name, kind string }{
	{"wwid", ""}, {"device/wwid", ""}, {"serial", diskid.Serial}, {"device/serial", diskid.Serial},
	{unitSerial, diskid.Serial},
	{"dm/uuid", diskid.DM}, {"md/uuid", diskid.MD},
}

// unitSerial is the page of a SCSI disk with its serial number, as the disk sends it: four bytes,
// of which the last two are the length of the rest, and that. See SPC, Unit Serial Number.
const unitSerial = "device/vpd_pg80"

// identify sets the Stack, ID, Identity and Twins of a device.
func (v *view) identify(d *Device) {
	dir, part := v.disk(d.Number), partition(v.attributes(d.Number))
	d.ID, _ = identityIn(dir)
	d.ID = ofPartition(d.ID, part)
	d.Stack = v.stack(d.Number)
	d.Joined = slices.ContainsFunc(numbers(filepath.Join(dir, "holders")), func(holder Number) bool {
		return multipath(v.attributes(holder)) // of the disk: then a partition of it cannot be opened either
	})
	id := v.identity(d.Number)
	if !id.Known() {
		return
	}
	d.Identity, d.Twins = id.String(), v.twins(d.Number, id)
	if len(d.Twins) > 0 && !id.Unique() || v.sizesDiffer(d.Number, d.Twins) {
		d.Identity = "" // two disks with one ID, or one disk by two paths
	}
}

// sizesDiffer reports whether the disk of a device has another size than those of its twins: they
// are two disks then, such as clones of a virtual one, and the ID is of neither.
func (v *view) sizesDiffer(n Number, twins []Number) bool {
	ofDisk := func(n Number) string {
		if partition(v.attributes(n)) == 0 && v.ids[n].Part > 0 {
			return "" // a partition that kpartx made
		}
		return v.size(v.diskOf(n))
	}
	own := ofDisk(n)
	return slices.ContainsFunc(twins, func(twin Number) bool {
		theirs := ofDisk(twin)
		return own != "" && theirs != "" && own != theirs
	})
}

// recorded returns the ID of a disk, or of a partition of it, as PVs record it.
func recorded(dir string, part int) string {
	id, kind := identityIn(dir)
	if id == "" {
		return ""
	}
	return ofPartition(kind+id, part)
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

// twins returns the other devices of the machine with that ID: disks, their partitions of the number
// in it, and partitions that kpartx made.
func (v *view) twins(n Number, id diskid.ID) (all []Number) {
	for _, disk := range v.disks {
		theirs := v.ids[disk]
		if theirs.Disk != id.Disk {
			continue
		}
		if theirs.Part == 0 && id.Part > 0 {
			dir, err := filepath.EvalSymlinks(v.attributes(disk))
			part, ok := parseNumber(attribute(filepath.Join(dir, PartitionName(filepath.Base(dir), id.Part)), "dev"))
			if err != nil || !ok {
				continue
			}
			disk, theirs = part, id
		}
		if theirs == id && disk != n {
			all = append(all, disk)
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
	major, minor, err := mount.ParseDevice(text)
	return Number{major, minor}, err == nil
}

// attachment returns the boot of the machine and the sequence of a device; "" before Linux 5.15,
// which gives none.
func (m *Machine) attachment(sequence uint64) string {
	boot := m.Boot()
	if boot == "" || sequence == 0 {
		return ""
	}
	return boot + "/" + strconv.FormatUint(sequence, 10)
}
