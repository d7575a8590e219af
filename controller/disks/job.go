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

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// job is the work on one device. It runs beside the passes, and is kept after a failure until it is
// tried again. The Controller's mu guards it.
type job struct {
	target   // that it was begun with
	action   action
	began    time.Time
	moved    time.Time // of the last progress
	cancel   context.CancelCauseFunc
	running  bool
	state    State
	why      string
	progress disk.Progress
	tries    int
	retry    time.Time // when it is begun again, if it is not running
}

// work is the function of a job. It calls report with its progress. The error is the reason why the
// device is not wiped and offered.
type work func(ctx context.Context, t target, report func(disk.Progress)) error

// cleaned is a device that was wiped and verified, and has no PV yet.
type cleaned struct {
	target
	version string // of its PV, if that could not be deleted after the wipe
}

var (
	errRefused = errors.New("refused")
	errEnded   = errors.New("the device is not to be wiped any more")
)

// wipeError is the error of a wipe that was begun.
type wipeError struct{ error }

func (e *wipeError) Unwrap() error { return e.error }

// outcome returns the state of a device whose job failed, and the reason of the event.
func outcome(err error) (s State, reason string) {
	switch {
	case errors.As(err, new(*wipeError)):
		return Error, events.DeviceWipeFailed
	case errors.Is(err, disk.ErrBusy):
		return Busy, events.DeviceBusy
	case errors.Is(err, errRefused):
		return Refused, events.DeviceRefused
	}
	return Error, events.DeviceError
}

// begin starts a job for a device, unless one is running, or failed a short while ago for the same
// PV and ConfigMap. It ends a running job for another PV, or one whose device may not be wiped any
// more; the next pass starts the job then. The job ends with the context.
func (c *Controller) begin(ctx context.Context, d decision, do work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, t := d.device.Number, d.target
	j := c.jobs[n]
	switch {
	case d.action == offer && c.made[n].After(c.listed):
		return // the device has its PV, which was not listed yet
	case j == nil:
		j = &job{state: d.report.State}
	case j.running && (j.uid() != t.uid() || j.action != d.action || t.pv == nil && j.spec.existing && !t.spec.existing):
		j.cancel(errEnded)
		return
	case j.running:
		return
	case j.uid() != t.uid() || j.action != d.action || !j.spec.same(t.spec) || j.device.Sequence != t.device.Sequence:
		j = &job{state: d.report.State}
	case time.Now().Before(j.retry):
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	j.action, j.moved = d.action, time.Now()
	j.target, j.began, j.cancel, j.running, j.progress = t, time.Now(), cancel, true, disk.Progress{}
	c.jobs[n] = j
	c.running.Go(func() {
		defer cancel(nil)
		c.finish(ctx, j, t, do(ctx, t, func(p disk.Progress) { c.progress(j, p) }))
	})
}

func (c *Controller) progress(j *job, p disk.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.Wiped > j.progress.Wiped {
		c.wiped.Add(p.Wiped - j.progress.Wiped)
	}
	if p.Verified > j.progress.Verified {
		c.verified.Add(p.Verified - j.progress.Verified)
	}
	j.state, j.why, j.progress, j.moved = Wiping, "", p, time.Now()
}

// warnStuck records an event for each job without progress: a disk that hangs returns no error.
func (c *Controller) warnStuck(ctx context.Context) {
	c.mu.Lock()
	var stuck []target
	for _, j := range c.jobs {
		if j.running && time.Since(j.moved) >= stuckAfter {
			j.why = "no progress since " + j.moved.UTC().Format(time.RFC3339) + ": the disk does not answer"
			stuck = append(stuck, j.target)
		}
	}
	c.mu.Unlock()
	for _, t := range stuck {
		c.warn(ctx, t.pv, "stuck "+t.device.Path, events.DeviceError,
			fmt.Sprintf("device %s: it was to be read or wiped, and there is no progress for %s: the disk does not "+
				"answer. Replace it", t.device.Path, stuckAfter))
	}
}

// finish records the outcome of a job, and wakes the loop.
func (c *Controller) finish(ctx context.Context, j *job, t target, err error) {
	c.mu.Lock()
	failed := err != nil && ctx.Err() == nil && !errors.Is(err, errEnded)
	state, reason := outcome(err)
	j.running = false
	switch n := t.device.Number; {
	case failed:
		j.state, j.why = state, err.Error()
	case c.jobs[n] == j:
		delete(c.jobs, n)
	}
	if err == nil && t.pv == nil {
		c.made[t.device.Number] = time.Now()
	}
	j.retry = time.Now().Add(j.pause(err, c.Interval))
	j.tries++
	c.mu.Unlock()
	if failed {
		klog.FromContext(ctx).Info("A device is not offered", "device", t.device.Number, "why", err)
		topic, message := err.Error(), fmt.Sprintf("the PV stays Released, and its device is tried again: %v", err)
		if path := t.device.Path; t.pv == nil {
			topic, message = path+topic, fmt.Sprintf("device %s is not offered: %v", path, err)
		}
		c.warn(ctx, t.pv, topic, reason, message)
	}
	if t.pv == nil || j.action != check { // what a check changes wakes the loop
		sleep.Wake(c.wake)
	}
}

// pause returns how long a failed job waits. A failed wipe begins again with the first byte, and on
// a bad disk fails again after hours. It therefore waits at least as long as it took, and longer
// each time, up to a day.
func (j *job) pause(err error, interval time.Duration) time.Duration {
	pause := firstRetry << min(j.tries, 20)
	if errors.As(err, new(*wipeError)) {
		return min(max(pause, time.Since(j.began)), lastRetry)
	}
	return min(pause, interval)
}

// end ends the work on a device.
func (c *Controller) end(n disk.Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(n)
}

// endLocked is end for a caller that holds mu.
func (c *Controller) endLocked(n disk.Number) {
	if j := c.jobs[n]; j != nil && j.running {
		j.cancel(errEnded)
	} else {
		delete(c.jobs, n)
	}
}

// endOthers ends the work on a device that is not the decision's.
func (c *Controller) endOthers(d decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.jobs[d.device.Number]; j != nil && (j.action != d.action || j.uid() != d.uid()) {
		c.endLocked(d.device.Number)
	}
}

// next returns the time until the first job is tried again, at most the interval.
func (c *Controller) next() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.Interval
	for _, j := range c.jobs {
		if !j.running {
			next = min(next, time.Until(j.retry))
		}
	}
	for _, since := range c.goneFrom {
		if c.readAt.Sub(since) < absence { // then the pass has not decided, also if it took longer than that
			next = min(next, absence-time.Since(since))
		}
	}
	return max(next, debounce)
}

// publish sets the result of Reports, and ends the jobs of devices without a report.
func (c *Controller) publish(reports []Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.reports = nil, reports
	known := map[disk.Number]bool{}
	for _, r := range reports {
		known[r.number] = true
	}
	for n := range c.jobs {
		if !known[n] {
			c.endLocked(n)
		}
	}
	maps.DeleteFunc(c.clean, func(n disk.Number, _ cleaned) bool { return !known[n] })
	maps.DeleteFunc(c.taken, func(n disk.Number, _ takenDisk) bool { return !known[n] })
	maps.DeleteFunc(c.made, func(n disk.Number, _ time.Time) bool { return !known[n] })
}

// dataLeft is the reason in the report of a disk whose wipe was ended for another claim.
const dataLeft = "the disk was being wiped when the PV was given to another claim: a part of its data is left"

// wipedPartly returns the PVs for which this process or an earlier one began a wipe that did not
// succeed. It forgets PVs that are gone.
//
// It also ends the jobs for PVs that are not Released any more. Such a job that has not written its
// first byte by then writes none, so the result holds for the pass.
func (c *Controller) wipedPartly(pvs []*corev1.PersistentVolume) map[types.UID]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	released, partly := map[types.UID]bool{"": true}, map[types.UID]bool{}
	for _, pv := range pvs {
		released[pv.UID] = pv.Status.Phase == corev1.VolumeReleased
		partly[pv.UID] = c.begun[pv.UID] || c.wipes[wipeLease(pv.UID)]
	}
	for _, j := range c.jobs {
		if j.running && !released[j.uid()] {
			j.cancel(errEnded)
		}
	}
	c.forgetChecks(partly)
	maps.DeleteFunc(c.begun, func(uid types.UID, _ bool) bool { _, known := partly[uid]; return !known })
	return partly
}

// forget forgets that a device was wiped, because it has a PV.
func (c *Controller) forget(n disk.Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clean, n)
}

// wipedBefore returns the record of a device that was wiped and has no PV yet.
func (c *Controller) wipedBefore(d disk.Device) (cleaned, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note, has := c.clean[d.Number]
	return note, has && note.device.Sequence == d.Sequence && note.device.Bytes == d.Bytes
}

// noteWiped records that a device was wiped. version is the version of its PV, "" if it has none.
func (c *Controller) noteWiped(t target, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, t.uid())
	c.clean[t.device.Number] = cleaned{t, version}
}
