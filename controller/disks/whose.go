package disks

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// Annotations of a PV that identify its disk, beside its size.
const (
	// AnnDisk is the ID of the disk, with its kind; absent if the disk has none.
	AnnDisk = "hostpath-provisioner.kubevirt.io/disk-id"
	// AnnAttachment is the boot of the node and the number that the kernel gave the disk in that
	// boot.
	AnnAttachment = "hostpath-provisioner.kubevirt.io/disk-attachment"
	// AnnStart is where a partition begins on its disk, in bytes; absent for a whole disk. Another
	// partition table can have another partition of the number and the size.
	AnnStart = "hostpath-provisioner.kubevirt.io/disk-start"
	// AnnBelow has the IDs, with commas between them, of the disks that the device lies on, such as
	// the LUN of a logical volume, if other nodes know these; absent if there are none.
	AnnBelow = "hostpath-provisioner.kubevirt.io/disk-below"
	// AnnConfirmed is written by an administrator, for PVs whose disk cannot be identified
	// otherwise: the ID or the attachment of the disk.
	AnnConfirmed = "hostpath-provisioner.kubevirt.io/disk-confirmed"
)

// recorded returns the marks of its disk that a PV records.
func recorded(pv *corev1.PersistentVolume) identity.RecordedDisk {
	size := pv.Spec.Capacity[corev1.ResourceStorage]
	bytes, _ := size.AsInt64()                                     // 0 if it is none: no disk has that size
	start, _ := strconv.ParseInt(pv.Annotations[AnnStart], 10, 64) // 0 is not known
	return identity.RecordedDisk{
		Disk: identity.Disk{
			Start: start, ID: pv.Annotations[AnnDisk], Bytes: bytes, NodeUID: identity.DiskNodeUID(pv),
			Attachment: pv.Annotations[AnnAttachment],
		},
		Path: localPath(pv), Confirmed: pv.Annotations[AnnConfirmed],
		Below: strings.FieldsFunc(pv.Annotations[AnnBelow], func(r rune) bool { return r == ',' }),
	}
}

// whose returns whether the device is the one that the PV was made for.
func whose(pv *corev1.PersistentVolume, d disk.Device, node *corev1.Node) identity.Finding {
	if d.Err != nil {
		return identity.Finding{Answer: identity.Unclear, Why: d.Err.Error()}
	}
	return identity.OfDisk(recorded(pv), identity.Disk{
		ID: d.Identity, Bytes: d.Bytes, Start: d.Start, NodeUID: string(node.UID), Attachment: d.Attachment,
	})
}
