package identity

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Disk is what identifies the disk that is at a path of a node.
type Disk struct {
	// ID is the identifier that the disk reports, with its kind, such as "naa.5000c500a1b2c3d4"; ""
	// if it has none, or shares it with another disk of the node.
	ID    string
	Bytes int64
	// NodeUID is the UID of the Node.
	NodeUID string
	// Attachment is the boot of the node and the number that the kernel gave the disk when it was
	// attached; "" if the kernel gives none. It changes with every boot.
	Attachment string
}

// RecordedDisk is what a PV records of the disk that it was made for.
type RecordedDisk struct {
	Disk
	// Path is where the PV expects the disk.
	Path string
	// Confirmed is the ID or the attachment of the disk that an administrator confirmed to be the
	// PV's; "" if none did. It also stands for the Node UID: the disk may have been moved with its
	// PV.
	Confirmed string
}

// LastingID returns the ID by which the PV's disk can be found after a boot, "" if there is none.
func (r RecordedDisk) LastingID() string {
	if r.ID == "" && !strings.Contains(r.Confirmed, "/") {
		return r.Confirmed
	}
	return r.ID
}

// OfDisk returns whether the disk that was found is the one that the PV was made for. The path
// leads there and proves nothing: names swap at a boot, and disks are replaced in their slots.
//
// The disk is Ours if ID, size and Node UID agree. Without an ID the attachment has to agree, so
// after another boot the answer is Unclear until an administrator confirms the disk. It is Foreign
// if both have an ID, and these differ.
func OfDisk(pv RecordedDisk, found Disk) Finding {
	id := pv.ID
	if id == "" && names(pv.Path, found.ID) {
		id = found.ID // a link that is named by the ID was made for this disk
	}
	confirmed := pv.Confirmed != "" && (pv.Confirmed == found.ID || pv.Confirmed == found.Attachment)
	switch {
	case !confirmed && id != "" && found.ID != "" && id != found.ID:
		return Finding{Foreign, fmt.Sprintf("the PV was made for the disk %s, and %s is the disk %s", id, pv.Path, found.ID)}
	case pv.Bytes != found.Bytes:
		return unclearDisk("the PV was made for a disk of %d bytes, and %s has %d", pv.Bytes, pv.Path, found.Bytes)
	case confirmed:
		return Finding{Answer: Ours}
	case pv.NodeUID != found.NodeUID:
		return unclearDisk("the PV was made by the Node with the UID %s, and this one has the UID %s",
			cmp.Or(pv.NodeUID, "none"), found.NodeUID)
	case id != "" && id == found.ID, id == "" && pv.Attachment != "" && pv.Attachment == found.Attachment:
		return Finding{Answer: Ours}
	case id != "":
		return unclearDisk("the PV was made for the disk %s, and the one at %s has no ID of its own", id, pv.Path)
	case pv.Attachment == "":
		return unclearDisk("the PV does not record which disk it was made for")
	}
	return unclearDisk("the PV's disk has no ID, and the disk at %s was attached since, by a boot for example", pv.Path)
}

func unclearDisk(format string, args ...any) Finding {
	return Finding{Unclear, fmt.Sprintf(format, args...)}
}

// SharedDisk returns the ID by which a whole disk is known on every node that reaches it, "" if two
// disks of two nodes can have that ID. Serial numbers and the IDs made of them are alike on many
// virtual machines, IDs of device mapper and md are cloned with images, a name of NAA 3 is the
// administrator's, and QEMU gives the same EUI-64 to the disks of all its machines. The ID of a
// partition is taken for that of its disk.
func SharedDisk(id string) string {
	id = partitionOfID.ReplaceAllString(id, "")
	if !sharedID.MatchString(id) || strings.HasPrefix(id, "eui.5254000000") {
		return ""
	}
	return id
}

// IsOf reports whether the PV, which may be another node's, was made for the disk with that ID, or
// for a partition of it. It is false for a disk that no other node can have.
func (r RecordedDisk) IsOf(id string) bool {
	shared := SharedDisk(id)
	if own := r.LastingID(); own != "" || shared == "" {
		return shared != "" && SharedDisk(own) == shared
	}
	return names(partitionOfID.ReplaceAllString(r.Path, ""), shared)
}

var (
	sharedID      = regexp.MustCompile(`^(naa\.[256]|eui\.|uuid\.)`)
	kindOfID      = regexp.MustCompile(`^(naa\.|eui\.|nvme\.|uuid\.|serial:|dm:|md:)`)
	partitionOfID = regexp.MustCompile(`-part[0-9]+$`)
)

// shortestID is how long an ID has to be to be recognized in a file name.
const shortestID = 8

// names reports whether the base name of a path carries an ID, as links in /dev/disk/by-id do. A
// name of a disk is not that of its partition.
func names(link, id string) bool {
	base := path.Base(link)
	part := partitionOfID.FindString(id)
	if id == "" || partitionOfID.FindString(base) != part {
		return false
	}
	value := kindOfID.ReplaceAllString(strings.TrimSuffix(id, part), "")
	if strings.HasPrefix(value, "t10.") { // vendor, model and serial number
		value = value[strings.LastIndexAny(value, "_.")+1:]
	}
	return len(value) >= shortestID && strings.Contains(strings.ToLower(base), strings.ToLower(value))
}
