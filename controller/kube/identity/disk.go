package identity

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/diskid"
)

// Disk is what identifies the disk that is at a path of a node.
type Disk struct {
	// ID is the identifier that the disk reports, with its kind, such as "naa.5000c500a1b2c3d4"; ""
	// if it has none, or shares it with another disk of the node.
	ID    string
	Bytes int64
	// Start is where a partition begins on its disk; 0 if that is not known, or for a whole disk.
	Start int64
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
	// PV's; "" if none did. It also stands for the Node UID and the size: the disk may have been
	// moved with its PV, and a LUN grows.
	Confirmed string
	// Below are the shared IDs of the disks that the device lies on.
	Below []string
}

// Shared returns the IDs by which other nodes know the disk of the PV, and those that it lies on.
func (r RecordedDisk) Shared() []string {
	if own := r.LastingID().Shared(); own != "" {
		return append([]string{own}, r.Below...)
	}
	return r.Below
}

// LastingID returns the ID by which the PV's disk can be found after a boot, the zero ID if there is
// none. It is read as that of a disk that is found.
func (r RecordedDisk) LastingID() diskid.ID {
	if id := diskid.Parse(r.ID); id.Known() || strings.Contains(r.Confirmed, "/") {
		return id
	}
	return diskid.Parse(r.Confirmed)
}

// OfDisk returns whether the disk that was found is the one that the PV was made for. The path
// leads there and proves nothing: names swap at a boot, and disks are replaced in their slots.
//
// The disk is Ours if it is confirmed, or if ID, size, the begin of a partition and Node UID agree.
// Without an ID the attachment has to agree, so after another boot the answer is Unclear until an
// administrator confirms the disk. It is Foreign if both have an ID, and these differ.
func OfDisk(pv RecordedDisk, found Disk) Finding {
	id, there := diskid.Parse(pv.ID), diskid.Parse(found.ID)
	if !id.Known() && there.Names(path.Base(pv.Path)) {
		id = there // a link that is named by the ID was made for this disk
	}
	confirmed := pv.Confirmed != "" && (diskid.Parse(pv.Confirmed) == there && there.Known() ||
		pv.Confirmed == found.Attachment)
	switch {
	case !confirmed && id.Known() && there.Known() && id != there:
		return Finding{Foreign, fmt.Sprintf("the PV was made for the disk %s, and %s is the disk %s", id, pv.Path, there)}
	case confirmed:
		return Finding{Answer: Ours}
	case pv.Bytes != found.Bytes:
		return unclearDisk("the PV was made for a disk of %d bytes, and %s has %d", pv.Bytes, pv.Path, found.Bytes)
	case pv.Start != 0 && pv.Start != found.Start:
		return unclearDisk("the PV was made for a partition that begins at byte %d of its disk, and %s begins at byte %d",
			pv.Start, pv.Path, found.Start)
	case pv.NodeUID != found.NodeUID:
		return unclearDisk("the PV was made by the Node with the UID %s, and this one has the UID %s",
			cmp.Or(pv.NodeUID, "none"), found.NodeUID)
	case id.Known() && id == there, !id.Known() && pv.Attachment != "" && pv.Attachment == found.Attachment:
		return Finding{Answer: Ours}
	case id.Known():
		return unclearDisk("the PV was made for the disk %s, and the one at %s has no ID of its own", id, pv.Path)
	case pv.Attachment == "":
		return unclearDisk("the PV does not record which disk it was made for")
	}
	return unclearDisk("the PV's disk has no ID, and the disk at %s was attached since, by a boot for example", pv.Path)
}

func unclearDisk(format string, args ...any) Finding {
	return Finding{Unclear, fmt.Sprintf(format, args...)}
}

// IsOf reports whether the PV, which may be another node's, was made for the disk with one of these
// shared IDs, for a partition of it, or for what lies on it; see diskid.ID.Shared.
func (r RecordedDisk) IsOf(shared []string) bool {
	own := r.LastingID()
	return slices.ContainsFunc(shared, func(id string) bool {
		if own.Known() || len(r.Below) > 0 {
			return slices.Contains(r.Shared(), id)
		}
		return diskid.Parse(id).Names(partitionOfName.ReplaceAllString(path.Base(r.Path), ""))
	})
}

var partitionOfName = regexp.MustCompile(`-part[0-9]+$`)
