package disks

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// unknownDisk returns a PV with a claim and an unknown disk, nil if there is none. Any disk of the
// node may be that disk.
func unknownDisk(all slotList, gone []placed) *corev1.PersistentVolume {
	for _, s := range all {
		gone = append(gone, s.pvs...)
	}
	for _, pv := range gone {
		if pv.Answer != identity.Ours && pv.unknown() {
			return pv.PersistentVolume
		}
	}
	return nil
}

// unknown reports whether a claim has the PV, and its disk cannot be found at another path.
func (p placed) unknown() bool {
	return !free(p.PersistentVolume) && !recorded(p.PersistentVolume).LastingID().Known()
}

// strays returns the PVs of gone whose disks were not found at other paths either.
func (all slotList) strays(gone []placed) []placed {
	return slices.DeleteFunc(slices.Clone(gone), func(pv placed) bool {
		return slices.ContainsFunc(all, func(s *slot) bool {
			return slices.ContainsFunc(s.pvs, func(p placed) bool { return p.UID == pv.UID })
		})
	})
}

// rival returns another PV whose unknown disk this device may be: it is found nowhere, and has the
// device's size. It returns nil if there is none.
func (f found) rival(d disk.Device, pv placed) *corev1.PersistentVolume {
	i := slices.IndexFunc(f.strays, func(other placed) bool {
		return other.UID != pv.UID && other.unknown() && recorded(other.PersistentVolume).Bytes == d.Bytes
	})
	if i < 0 {
		return nil
	}
	return f.strays[i].PersistentVolume
}

// unclear decides about a device that may not be the disk of the PV that names it. Nothing is
// written. A PV without a claim is withdrawn, and the device is offered again if it is empty.
//
// rival is another PV whose disk the device may be, or nil. A disk without an ID that was moved has two: a
// person who knows that it was the one's disk may not know that it is the other's by now.
func (d *decision) unclear(pv placed, rival *corev1.PersistentVolume) {
	why := pv.Why
	d.set(keep, Unclear, why)
	fix := "attach the disk of the PV"
	if mark := cmp.Or(d.device.Identity, d.device.Attachment); pv.elsewhere { // the kubelet uses the path
		fix = fmt.Sprintf("have %s lead to the disk again, by a link or a rule of udev", localPath(d.pv))
		d.report.Why += ": " + fix
	} else if mark != "" {
		confirm, also := AnnConfirmed+"="+mark, ""
		if rival == nil {
			d.report.Confirm = confirm
		} else {
			also = fmt.Sprintf(", and not that of PV %s, whose device %s is gone and whose data is on it then",
				rival.Name, localPath(rival))
			d.report.Why += fmt.Sprintf("; it may be the disk of PV %s", rival.Name)
		}
		fix = fmt.Sprintf("if this is the disk of the PV%s, confirm it: kubectl annotate --overwrite pv %s %s", also,
			d.pv.Name, confirm)
	}
	switch {
	case free(d.pv):
		d.withdraw(why)
		d.holds = !identity.DiskIsFree(d.pv)
	case d.pv.Status.Phase == corev1.VolumeBound:
		d.report.State = Bound
	}
	d.warn("unclear "+why, events.DeviceUnclear,
		fmt.Sprintf("the disk is not wiped, and not offered to another claim: %s; %s", why, fix))
}
