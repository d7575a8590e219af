package device

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// job is the work on one device. It runs beside the passes, and is kept after an end that was no
// success, until it is tried again. The Controller's mu guards it.
type job struct {
	uid      types.UID // of the Released PV that it is for, "" for a device without a PV
	spec     spec      // that it was begun with
	sequence uint64    // of the device
	identity string    // of the device
	began    time.Time
	cancel   context.CancelCauseFunc
	running  bool
	state    State
	why      string
	progress disk.Progress
	tries    int
	retry    time.Time // when it is begun again, if it does not run
}

// work does a job. It calls report as it goes on. The error is why the device is not wiped and
// offered.
type work func(ctx context.Context, report func(disk.Progress)) error

// cleaned is a device that was wiped and verified, and has no PV yet.
type cleaned struct {
	sequence uint64
	bytes    int64
	identity string
	name     string // of the PV that it had
	version  string // of that PV, if it could not be deleted after the wipe
}

var (
	errRefused = errors.New("refused")
	errEnded   = errors.New("the device is not to be wiped any more")
)

// begin does the work on a device unless that is under way, or failed a short while ago for the same
// PV and ConfigMap. Work for another PV is ended, as is that on a device which may not be wiped any
// more, and the next pass begins. The work ends with the context.
func (c *Controller) begin(ctx context.Context, d decision, do work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, uid, s := d.device.Number, d.uid(), d.spec
	j := c.jobs[n]
	switch {
	case j == nil:
		j = &job{state: d.report.State}
	case j.running && (j.uid != uid || uid == "" && j.spec.existing && !s.existing):
		j.cancel(errEnded)
		return
	case j.running:
		return
	case j.uid != uid || !j.spec.same(s) || j.sequence != d.device.Sequence:
		j = &job{state: d.report.State}
	case time.Now().Before(j.retry):
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	j.uid, j.spec, j.sequence, j.identity, j.began = uid, *s, d.device.Sequence, d.device.Identity, time.Now()
	j.cancel, j.running, j.progress = cancel, true, disk.Progress{}
	c.jobs[n] = j
	c.running.Go(func() {
		defer cancel(nil)
		c.finish(ctx, n, j, do(ctx, func(p disk.Progress) { c.progress(j, p) }))
	})
}

// same reports whether a job that failed would do the same again.
func (s *spec) same(o *spec) bool {
	return s.configMap == o.configMap && s.wipe == o.wipe && s.existing == o.existing && s.unknown == o.unknown && s.class == o.class && s.mode == o.mode && s.fsType == o.fsType &&
		slices.Equal(s.options, o.options)
}

func (c *Controller) progress(j *job, p disk.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.Wiped > j.progress.Wiped {
		c.wiped.Add(p.Wiped - j.progress.Wiped)
	}
	j.state, j.why, j.progress = Wiping, "", p
}

// finish notes how a job ended, and asks for a pass.
func (c *Controller) finish(ctx context.Context, n disk.Number, j *job, err error) {
	c.mu.Lock()
	j.running = false
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, errEnded):
		if c.jobs[n] == j {
			delete(c.jobs, n)
		}
	case errors.Is(err, disk.ErrBusy):
		j.state, j.why = Busy, err.Error()
	case errors.Is(err, errRefused):
		j.state, j.why = Refused, err.Error()
	default:
		j.state, j.why = Error, err.Error()
	}
	j.retry = time.Now().Add(j.pause(err, c.Interval))
	j.tries++
	c.mu.Unlock()
	if err != nil && ctx.Err() == nil && !errors.Is(err, errEnded) {
		klog.FromContext(ctx).Info("A device is not offered", "device", n, "why", err)
	}
	sleep.Wake(c.wake)
}

// pause returns how long a job that failed waits. A wipe that failed begins again with the first byte, and on a failing disk fails
// again after hours: it waits at least as long as it took, and longer each time, up to a day.
func (j *job) pause(err error, interval time.Duration) time.Duration {
	pause := firstRetry << min(j.tries, 20)
	if errors.As(err, new(*wipeError)) {
		return min(max(pause, time.Since(j.began)), lastRetry)
	}
	return min(pause, interval)
}

// end ends the work on a device, which has a PV that needs none.
func (c *Controller) end(n disk.Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.jobs[n]; j != nil && j.running {
		j.cancel(errEnded)
	} else {
		delete(c.jobs, n)
	}
}

// next returns when the first job is to be tried again, at the latest after the interval.
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
		if left := absence - time.Since(since); left > 0 {
			next = min(next, left)
		}
	}
	return max(next, settle)
}

// publish sets what Reports returns, and ends the work on devices that are in no report.
func (c *Controller) publish(reports []Report, numbers map[string]disk.Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.reports, c.numbers = nil, reports, numbers
	known := map[disk.Number]bool{}
	for _, n := range numbers {
		known[n] = true
	}
	for n, j := range c.jobs {
		if known[n] {
			continue
		}
		if j.running {
			j.cancel(fmt.Errorf("%w: it is gone", errEnded))
		} else {
			delete(c.jobs, n)
		}
	}
	for n := range c.clean {
		if !known[n] {
			delete(c.clean, n)
		}
	}
}

// partlyWiped is why a disk that is wiped no more has a part of a former tenant's data.
const partlyWiped = "the disk was being wiped when the PV was given to another claim: a part of its data is left"

// partlyWiped returns the PVs for which a wipe was begun, by this process or one before, and did not
// succeed. It forgets PVs that are gone, and first ends the wipes for all that are not Released any
// more: what has not begun by then writes nothing, so the answer holds for the pass.
func (c *Controller) partlyWiped(pvs []*corev1.PersistentVolume) map[types.UID]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	released, partly := map[types.UID]bool{"": true}, map[types.UID]bool{}
	for _, pv := range pvs {
		released[pv.UID] = pv.Status.Phase == corev1.VolumeReleased
		partly[pv.UID] = c.begun[pv.UID] || c.wipes[wipeLease(pv.UID)]
	}
	for _, j := range c.jobs {
		if j.running && !released[j.uid] {
			j.cancel(errEnded)
		}
	}
	maps.DeleteFunc(c.begun, func(uid types.UID, _ bool) bool { _, known := partly[uid]; return !known })
	return partly
}

// noteWipes notes which Leases of wipes there are.
func (c *Controller) noteWipes(leases []coordinationv1.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wipes = map[string]bool{}
	for _, l := range leases {
		c.wipes[l.Name] = holderOf(&l) == c.node
	}
}

// noteBegun notes that the first byte of the PV's disk is about to be wiped.
func (c *Controller) noteBegun(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun[uid] = true
}

// describe writes the job's part of a report.
func (j *job) describe(r *Report) {
	r.State, r.Why = j.state, j.why
	r.Wiped, r.Verified, r.WipeBytes = j.progress.Wiped, j.progress.Verified, j.progress.Total
	if !j.running && j.why != "" {
		r.Retry = j.retry.UTC().Truncate(time.Second)
	}
}

// forget forgets that a device was wiped: it has a PV.
func (c *Controller) forget(n disk.Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clean, n)
}

// wipedBefore returns the note about a device that was wiped and has no PV yet.
func (c *Controller) wipedBefore(d disk.Device) (cleaned, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note, has := c.clean[d.Number]
	return note, has && note.sequence == d.Sequence && note.bytes == d.Bytes
}

// noteWiped notes that a device was wiped. version is that of its PV, if it is still there.
func (c *Controller) noteWiped(t target, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, t.uid())
	d := t.device
	c.clean[d.Number] = cleaned{d.Sequence, d.Bytes, d.Identity, t.name, version}
}
