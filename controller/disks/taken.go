package disks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// An offered disk is blank, so other programs of the host take it for one that is free: a
// filesystem is made on it, or LVM takes it. The disk of a PV without a claim is therefore read again
// beside each pass. One whose disk is in use, or carries data, is withdrawn. The data is then not wiped, not
// even with `existing: wipe`: that is about data from before the disk was offered.

// takenDisk is a disk whose data is not wiped: the host took it while it was offered, or its PV, which had
// a claim before, was withdrawn.
type takenDisk struct {
	sequence uint64
	why      string // after "carries data,"
}

// checkDue reports whether the disk of an offered PV has to be read again. It was not read by this
// process, or not a moment ago: passes can follow each other.
func (c *Controller) checkDue(pv *corev1.PersistentVolume) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, checked := c.checked[pv.UID]
	return !checked || time.Since(at) >= min(firstRetry, c.Interval)
}

// check is the work that reads the disk of an offered PV again. It does not open the disk
// exclusively: the kubelet may be mounting it. A PV that was bound before lost its claim to an
// administrator, who gives its data to another one: it stays, with an event. So does one whose disk
// cannot be read.
func (c *Controller) check(ctx context.Context, t target, _ func(disk.Progress)) error {
	found, err := c.Devices.Blank(ctx, t.device, t.pv.Annotations[contract.AnnNodeUID] != "")
	c.noteChecked(t.pv.UID)
	why := ""
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, disk.ErrBusy):
		why = err.Error()
	case err != nil:
		c.warn(ctx, t.pv, "check "+err.Error(), events.DeviceError, "the disk of the PV cannot be read: "+err.Error())
	case found.Found():
		why = fmt.Sprintf("%s carries %s", describe(t.device), found)
	}
	if why == "" {
		return nil
	}
	if t.pv.Annotations[contract.AnnBoundByController] != "" {
		c.warn(ctx, t.pv, "taken", events.DeviceError, "the PV had a claim before, and the next one gets what is on "+
			"its disk: "+why+". To keep it from others, set the claimRef of the PV to the claim that is meant to have it")
		return nil
	}
	// Before the PV goes: the next pass offers the disk.
	c.noteTaken(t.device, "which came there while the disk was offered")
	if !c.withdraw(ctx, t.pv, why+". Something took the disk while it was offered") {
		c.forgetTaken(t.device.Number) // a claim has it, or it is read again
		klog.FromContext(ctx).Info("The disk of a PV was taken, and the PV could not be withdrawn",
			"pv", t.pv.Name, "why", why)
	}
	return nil
}

func (c *Controller) noteChecked(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked[uid] = time.Now()
}

func (c *Controller) noteTaken(d disk.Device, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken[d.Number] = takenDisk{d.Sequence, why}
}

// forgetTaken forgets that the host took a disk: it was blank since.
func (c *Controller) forgetTaken(n disk.Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.taken, n)
}

// forgetChecks forgets PVs that are gone. The caller holds mu.
func (c *Controller) forgetChecks(known map[types.UID]bool) {
	maps.DeleteFunc(c.checked, func(uid types.UID, _ time.Time) bool { _, is := known[uid]; return !is })
}

// unlessTaken returns the spec for a device: one with such data is not wiped, whatever the
// ConfigMap says, until it was found blank or the process ends.
func (c *Controller) unlessTaken(d disk.Device, s *spec) *spec {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, is := c.taken[d.Number]
	if !is || t.sequence != d.Sequence || !s.existing {
		return s
	}
	safe := *s
	safe.existing, safe.taken = false, t.why
	return &safe
}
