package disks

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// found has the values that a pass read. plan reads nothing else.
type found struct {
	node *corev1.Node
	spec *spec // nil if the node has no ConfigMap
	// devices are those that the ConfigMap selects, and at has the devices at the paths of PVs.
	devices []disk.Device
	missing bool // the directory of devices does not exist
	at      map[string]disk.Device
	pvs     []*corev1.PersistentVolume
	partly  map[types.UID]bool      // PVs for which a wipe was begun and did not succeed
	gone    map[types.UID]time.Time // since when the disks of PVs are not at their paths
	now     time.Time
	strays  []placed // PVs whose disks are found nowhere; plan sets them
}

// action is what apply does with a device.
type action int

const (
	leave    action = iota // nothing; a running job goes on
	stop                   // end the job of the device
	keep                   // stop, and forget that the device was wiped: its PV may be in use
	check                  // keep, and read the disk of a PV without a claim again
	withdraw               // keep, and delete the PV, which no claim has
	release                // wipe the device of a Released PV, and delete the PV
	offer                  // wipe a device without a PV if that is allowed, and make its PV
)

// target is a device, with the objects that a wipe and its PV depend on.
type target struct {
	device disk.Device
	node   *corev1.Node
	spec   *spec
	pv     *corev1.PersistentVolume // nil for a device without a PV
	name   string                   // of the PV that the device has, or is to have
}

// uid returns the UID of the PV, "" if there is none.
func (t target) uid() types.UID {
	if t.pv == nil {
		return ""
	}
	return t.pv.UID
}

// decision is the result of plan for one device, or for one PV that does not decide about a device.
type decision struct {
	action action
	target
	why      string // the PV is withdrawn
	holds    bool   // the device has the data of the PV that is withdrawn, which a claim had before
	report   Report // holds unless the PV was withdrawn; the zero Report is none
	warnings []warning
	since    time.Time // when the disk of the PV was first not at its path; zero if it is
}

// warning is an event about the decision's PV, or about the Node if there is none. It is not
// recorded if the PV was withdrawn, except for one about the ConfigMap.
type warning struct {
	topic, reason, message string
	normal                 bool // it may be as intended
}

func (d *decision) set(a action, s State, why string) {
	d.action, d.report.State, d.report.Why = a, s, why
}

func (d *decision) warn(topic, reason, message string) {
	d.warnings = append(d.warnings, warning{topic: topic, reason: reason, message: message})
}

// tellTwins adds a note for each device that is taken for another path to the disk of the PV. A clone
// with the disk's ID and size is, too, and nothing else says why it is not offered.
func (d *decision) tellTwins(twins []disk.Device) {
	for _, twin := range twins {
		d.warnings = append(d.warnings, warning{"twin " + twin.Path, events.DeviceTwice, fmt.Sprintf(
			"%s is taken for another path to this disk, and is not offered: both report the ID %s and %d bytes. If it is a "+
				"disk of its own, such as a clone, give it an ID of its own", twin.Path, twin.ID, twin.Bytes), true})
	}
}

// withdraw sets the action withdraw, unless a claim has the PV or another node may have made it.
func (d *decision) withdraw(why string) {
	mine := identity.DiskNodeUID(d.pv) == string(d.node.UID) || !excludesNode(d.pv, d.node)
	if d.pv.DeletionTimestamp == nil && d.pv.Spec.ClaimRef == nil && mine {
		d.action, d.why = withdraw, why
	}
}

// plan decides about each device and each PV, and gives the reason. It has no side effects. The
// values may be outdated when the plan is applied, so apply checks again before it destroys
// anything.
func plan(f found) (all []decision) {
	devices, gone := match(f)
	f.strays = devices.strays(gone)
	if pv := unknownDisk(devices, gone); pv != nil && f.spec != nil && f.spec.existing {
		safe := *f.spec // a device that carries data may be that disk
		safe.existing, safe.unknown = false, pv.Name
		f.spec = &safe
	}
	names := map[string]int{} // of PVs, with the number of devices that may get each
	for _, pv := range f.pvs {
		names[pv.Name] = 2 // it is taken
	}
	for _, s := range devices {
		if len(s.pvs) == 0 {
			names[plainName(f.node.Name, s.device.Path)]++
		}
	}
	for _, s := range devices {
		if len(s.pvs) == 0 {
			all = append(all, f.withoutPV(s, names))
			continue
		}
		all = append(all, f.withPV(s, s.pvs[0]))
		for _, other := range s.pvs[1:] {
			d := decision{target: target{pv: other.PersistentVolume, node: f.node}}
			if free(d.pv) { // a claim would get the disk of the other PV
				d.withdraw(fmt.Sprintf("%s is the device of PV %s", localPath(d.pv), s.pvs[0].Name))
			}
			d.warn("same", events.DeviceError, fmt.Sprintf("%s is the device of PV %s too", localPath(d.pv), s.pvs[0].Name))
			all = append(all, d)
		}
	}
	for _, pv := range gone {
		all = append(all, f.withoutDisk(pv))
	}
	return all
}

// free reports whether a PV waits for a claim and has none. It may have had one, whose data an
// administrator means to give to another: identity.DiskIsFree answers whether nothing is on its disk.
func free(pv *corev1.PersistentVolume) bool {
	waits := pv.Status.Phase == corev1.VolumeAvailable || pv.Status.Phase == corev1.VolumePending || pv.Status.Phase == ""
	return waits && pv.Spec.ClaimRef == nil
}

// about returns a decision about a device that has no action yet.
func (f found) about(s *slot) decision {
	return decision{
		target: target{device: s.device, node: f.node, spec: f.spec},
		report: Report{Device: s.device.Path, Paths: s.paths, ID: s.device.ID, Bytes: s.device.Bytes,
			number: s.device.Number},
	}
}

// withPV decides about a device with a PV.
func (f found) withPV(s *slot, pv placed) decision {
	d := f.about(s)
	d.pv, d.name, d.report.PV, d.report.Owner = pv.PersistentVolume, pv.Name, pv.Name,
		identity.DiskOwner(pv.PersistentVolume)
	d.compareSpec()
	d.tellTwins(s.twins)
	switch {
	case pv.Answer != identity.Ours && d.device.Err == nil:
		d.unclear(pv, f.rival(s.device, pv))
	case pv.Status.Phase == corev1.VolumeBound:
		d.set(keep, Bound, "")
		if f.partly[pv.UID] {
			d.report.Why = dataLeft
			d.warn("partly", events.DeviceError, dataLeft)
		}
	case pv.Status.Phase == corev1.VolumeReleased:
		d.released()
	case pv.Status.Phase == corev1.VolumeFailed:
		d.set(stop, Error, "the PV has the phase Failed: "+pv.Status.Message)
	default:
		d.available(f.partly[pv.UID])
	}
	return d
}

// compareSpec adds a warning if the ConfigMap would make the PV differently.
func (d *decision) compareSpec() {
	if d.spec == nil {
		return
	}
	if keys := d.spec.differences(d.pv); len(keys) > 0 {
		d.warn("differs "+d.spec.configMap+strings.Join(keys, ","), events.DeviceConfigDiffers, fmt.Sprintf(
			"ConfigMap %s/%s has another %s; the PV stays as it is until its claim is deleted",
			d.spec.namespace, d.spec.configMap, strings.Join(keys, ", ")))
	}
}

func (d *decision) released() {
	switch {
	case d.device.Err != nil:
		d.set(stop, Error, d.device.Err.Error())
		d.warn("device", events.DeviceError, d.report.Why)
	case d.pv.DeletionTimestamp != nil:
		d.set(leave, Released, "the PV is being deleted")
	case d.spec == nil:
		d.set(stop, Released, "the node has no ConfigMap of devices, and so no wipe mode")
		d.warn("spec", events.DeviceError, fmt.Sprintf("the disk is not wiped, and can be read: %s. Annotate the "+
			"Node with %s", d.report.Why, AnnSpec))
	default:
		d.set(release, Released, "")
	}
}

// available decides about a device whose PV waits for a claim. A PV that was Released, and for
// which a wipe was begun, is withdrawn: a part of the former tenant's data may be left.
func (d *decision) available(partly bool) {
	d.set(keep, Available, "")
	switch {
	case partly && !free(d.pv):
		d.set(keep, Error, dataLeft)
		d.warn("partly", events.DeviceError, dataLeft)
	case partly:
		d.set(keep, Error, "the disk was being wiped when the claimRef was removed, and its PV could not be withdrawn")
		d.withdraw("its disk was being wiped when its claimRef was removed; it is offered again once it is wiped")
	case d.spec == nil && identity.DiskIsFree(d.pv):
		d.withdraw("its node has no ConfigMap of devices any more")
	case free(d.pv) && d.device.Err == nil && d.pv.DeletionTimestamp == nil:
		d.action = check
	}
}

// withoutPV decides about a device without a PV.
func (f found) withoutPV(s *slot, names map[string]int) decision {
	d := f.about(s)
	reason := events.DeviceError
	switch device := s.device; {
	case device.Err != nil:
		d.set(stop, Error, device.Err.Error())
	case device.ReadOnly:
		d.set(stop, Error, "the device is read-only")
	case s.displaced != nil:
		d.set(stop, Unclear, fmt.Sprintf("PV %s names it, and was made for another disk: attach that disk, or delete the PV",
			s.displaced.Name))
	case f.touched(s) != nil:
		pv := f.touched(s)
		reason = events.DeviceBusy
		d.set(stop, Busy, fmt.Sprintf("PV %s, which names %s, was made for a disk that this device is, is a part of, "+
			"or lies on. Leave the device out of %s until that PV is gone", pv.Name, localPath(pv), keyFilter))
	case device.Identity == "" && len(device.Twins) > 0:
		d.set(stop, Error, fmt.Sprintf("device %s reports the same ID %s: they are one disk by two paths, or two disks. "+
			"Give each an ID of its own, use multipath, or leave one out of %s", device.Twins[0], device.ID, keyFilter))
	default:
		d.set(offer, Wiping, "") // until the device was probed
		d.name = pvName(f.node.Name, device.Path, func(name string) bool { return names[name] > 1 })
		return d
	}
	path := d.report.Device
	d.warn("error "+path, reason, fmt.Sprintf("%s is not offered: %s", path, d.report.Why))
	return d
}

// withoutDisk decides about a PV whose disk is not at its path. It waits first: udev replaces
// links.
func (f found) withoutDisk(pv placed) decision {
	d := decision{
		target: target{pv: pv.PersistentVolume, node: f.node},
		report: Report{Device: localPath(pv.PersistentVolume), State: Gone, Why: pv.Why, PV: pv.Name},
		since:  f.now,
	}
	if since, known := f.gone[pv.UID]; known {
		d.since = since
	}
	switch {
	case f.now.Sub(d.since) < absence:
	case identity.DiskIsFree(d.pv):
		d.withdraw(pv.Why)
	default:
		d.warn("gone "+pv.Why, events.DeviceGone, pv.Why)
	}
	return d
}
