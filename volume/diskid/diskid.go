// Package diskid reads the IDs of disks. What a PV recorded and what is found are read by the same
// function, Parse, so that both are one ID if they are one disk.
//
//	diskid.go  ID: what identifies a disk, or a partition of it
//	slots.go   IDs that name the slot, and not the disk in it
package diskid

import (
	"regexp"
	"strconv"
	"strings"
)

// ID identifies a disk, or a partition of it, for as long as it exists. It is the zero ID if
// nothing does.
type ID struct {
	// Disk is the identifier that the disk reports, with its kind, such as "naa.5000c500a1b2c3d4".
	Disk string
	// Part is the number of a partition, 0 for the whole disk.
	Part int
}

// Kinds of IDs that the kernel shows without a kind of their own.
const (
	Serial = "serial:"
	DM     = "dm:"
	MD     = "md:"
)

// Parse reads an ID that was found, or that a PV recorded. It returns the zero ID if the text names
// a slot.
//
// The name that dm-multipath gives a disk is that of the disk: "dm:mpath-3" is followed by its NAA,
// "dm:mpath-2" by its EUI-64, "dm:part1-mpath-3" is the first partition.
func Parse(text string) ID {
	id := ID{Disk: text}
	if suffix := partition.FindStringSubmatch(text); suffix != nil {
		id.Disk = strings.TrimSuffix(text, suffix[0])
		id.Part, _ = strconv.Atoi(suffix[1]) // digits
	}
	if mapped := kpartx.FindStringSubmatch(id.Disk); mapped != nil && id.Part == 0 {
		id.Disk = DM + mapped[2]
		id.Part, _ = strconv.Atoi(mapped[1])
	}
	id.Disk = withoutMultipath(id.Disk)
	if namesSlot(id.Disk) {
		return ID{}
	}
	return id
}

var (
	partition = regexp.MustCompile(`-part([0-9]{1,9})$`)
	kpartx    = regexp.MustCompile(`^dm:part([0-9]{1,9})-(mpath-.+)$`)
)

// multipaths are the names of dm-multipath that carry the ID of the disk: the first digit is the
// type of the designator, as scsi_id prints it. NVMe disks have their own name.
var multipaths = []struct {
	name *regexp.Regexp
	kind string
}{
	{regexp.MustCompile(`^dm:mpath-3([0-9a-f]{16}|[0-9a-f]{32})$`), "naa."},
	{regexp.MustCompile(`^dm:mpath-2([0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32})$`), "eui."},
	{regexp.MustCompile(`^dm:mpath-((?:naa|eui|uuid)\.[0-9a-f-]+)$`), ""},
}

func withoutMultipath(disk string) string {
	for _, m := range multipaths {
		if match := m.name.FindStringSubmatch(strings.ToLower(disk)); match != nil {
			return m.kind + match[1]
		}
	}
	return disk
}

// String returns the ID as a PV records it, "" for the zero ID.
func (i ID) String() string {
	if i.Disk == "" || i.Part == 0 {
		return i.Disk
	}
	return i.Disk + "-part" + strconv.Itoa(i.Part)
}

// Known reports whether there is an ID.
func (i ID) Known() bool { return i.Disk != "" }

// Within reports whether the ID is that of o, or of a partition of it. Two partitions are two.
func (i ID) Within(o ID) bool {
	return i.Known() && i.Disk == o.Disk && (o.Part == 0 || i.Part == o.Part)
}

// Unique reports whether no two disks of a machine have the ID, so that two devices with it are one
// disk. Serial numbers, and the T10 and NVMe identifiers that contain them, are alike on many
// virtual machines.
func (i ID) Unique() bool {
	for _, kind := range []string{"naa.", "eui.", "uuid.", DM, MD} {
		if strings.HasPrefix(i.Disk, kind) {
			return true
		}
	}
	return false
}

// Shared returns the ID by which the whole disk is known on every node that reaches it, "" if two
// disks of two nodes can have that ID. Serial numbers and the IDs made of them are alike on many
// virtual machines, IDs of device mapper and md are cloned with images, and a name of NAA 3 is the
// administrator's.
func (i ID) Shared() string {
	if !shared.MatchString(i.Disk) {
		return ""
	}
	return i.Disk
}

var shared = regexp.MustCompile(`^(naa\.[256]|eui\.|uuid\.)`)

// UnknownMultipath reports whether the disk is one of dm-multipath whose name does not carry an ID
// of the disk. Other nodes can reach such a disk, by a name that cannot be compared.
func (i ID) UnknownMultipath() bool { return strings.HasPrefix(i.Disk, DM+"mpath-") }

// shortest is how long an ID has to be to be recognized in a file name.
const shortest = 8

// kind is what an ID has in front of the part that file names carry.
var kind = regexp.MustCompile(`^(naa\.|eui\.|nvme\.|uuid\.|serial:|dm:|md:)`)

// Names reports whether the base name of a path carries the ID, as links in /dev/disk/by-id do. A
// name of a disk is not that of its partition.
func (i ID) Names(base string) bool {
	part := 0
	if suffix := partition.FindStringSubmatch(base); suffix != nil {
		part, _ = strconv.Atoi(suffix[1])
	}
	if !i.Known() || part != i.Part {
		return false
	}
	value := kind.ReplaceAllString(i.Disk, "")
	if strings.HasPrefix(value, "t10.") { // vendor, model and serial number
		value = value[strings.LastIndexAny(value, "_.")+1:]
	}
	return len(value) >= shortest && strings.Contains(strings.ToLower(base), strings.ToLower(value))
}
