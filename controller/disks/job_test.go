package disks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// `existing: wipe` is taken back while a disk is wiped by it, or the disk of a PV with a claim is
// not known any more: the wipe ends. Any other change of the ConfigMap lets it go on.
func TestWipeEndsWithItsPermission(t *testing.T) {
	allowed := &spec{configMap: "cm", existing: true}
	for name, row := range map[string]struct {
		now  *spec
		ends bool
	}{
		"refuse":              {&spec{configMap: "cm"}, true},
		"an unknown disk":     {&spec{configMap: "cm", unknown: "pv"}, true},
		"another class":       {&spec{configMap: "cm", existing: true, class: "other"}, false},
		"nothing was changed": {allowed, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(Config{Interval: time.Minute})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			ended := make(chan error, 1)
			of := func(s *spec) decision {
				return decision{target: target{device: disk.Device{Number: disk.Number{Major: 8}}, spec: s}}
			}
			c.begin(ctx, of(allowed), func(ctx context.Context, _ target, _ func(disk.Progress)) error {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return ctx.Err()
			})
			c.begin(ctx, of(row.now), nil)
			if !row.ends {
				cancel()
			}
			if err := <-ended; errors.Is(err, errEnded) != row.ends {
				t.Errorf("the wipe ended with %v", err)
			}
			cancel()
			c.running.Wait()
		})
	}
}

// A pass lists the PVs, a job makes the PV of a device, and the pass plans: the device is not offered
// again, with an event that its own PV is on it.
func TestNoOfferOfADeviceWhosePVWasJustMade(t *testing.T) {
	n := emptyNode(t)
	n.attach(device("/dev/a", 1, diskA))
	c := New(Config{Node: "n", Interval: time.Minute})
	began := 0
	do := func(context.Context, target, func(disk.Progress)) error { began++; return nil }
	d := plan(n.found)[0]
	for want, listed := range []time.Time{time.Now(), time.Now(), time.Now().Add(time.Hour)} {
		c.listed = listed
		c.begin(t.Context(), d, do)
		c.running.Wait()
		if want = []int{1, 1, 2}[want]; began != want {
			t.Errorf("%d jobs, want %d", began, want)
		}
	}
}

// A wipe that failed is begun again after as long as it took, later each time, and at the latest
// after a day. Everything else is tried again at the polling interval.
func TestPauseOfAJob(t *testing.T) {
	const interval = 5 * time.Minute
	failed := &wipeError{errors.New("it cannot be written")}
	for name, row := range map[string]struct {
		err   error
		tries int
		took  time.Duration
		want  time.Duration
	}{
		"busy":                    {disk.ErrBusy, 0, 0, 5 * time.Second},
		"busy again":              {disk.ErrBusy, 2, 0, 20 * time.Second},
		"busy for long":           {disk.ErrBusy, 1000, time.Hour, interval},
		"a wipe":                  {failed, 0, time.Second, 5 * time.Second},
		"a wipe that takes hours": {failed, 0, 6 * time.Hour, 6 * time.Hour},
		"a wipe again":            {failed, 10, time.Second, 5 << 10 * time.Second},
		"a wipe for long":         {failed, 1000, time.Second, 24 * time.Hour},
		"a wipe of days":          {failed, 0, 100 * time.Hour, 24 * time.Hour},
	} {
		j := &job{tries: row.tries, began: time.Now().Add(-row.took)}
		if got := j.pause(row.err, interval).Round(time.Second); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// A wipe that failed waits, unless the ConfigMap changed, or another disk was attached.
func TestFailedWipeWaits(t *testing.T) {
	c := New(Config{Events: quiet{}, Interval: time.Minute})
	d, s := disk.Device{Number: disk.Number{Major: 8}, Sequence: 1}, &spec{configMap: "cm"}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{UID: "pv"}}
	begins := 0
	begin := func(d disk.Device, s *spec) int {
		c.begin(t.Context(), decision{target: target{device: d, spec: s, pv: pv}},
			func(context.Context, target, func(disk.Progress)) error {
				begins++
				return &wipeError{errors.New("it cannot be written")}
			})
		c.running.Wait()
		return begins
	}
	changed := *s
	changed.wipe = disk.Quick
	other := d
	other.Sequence++
	for i, row := range []struct {
		d    disk.Device
		s    *spec
		want int
	}{{d, s, 1}, {d, s, 1}, {d, &changed, 2}, {d, &changed, 2}, {other, &changed, 3}} {
		if got := begin(row.d, row.s); got != row.want {
			t.Errorf("step %d: begun %d times, want %d", i, got, row.want)
		}
	}
}

// A job whose disk does not answer is recorded; one that goes on, or has begun a moment ago, is not.
func TestJobWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c := New(Config{Interval: time.Minute, Events: reasons{&got}})
		ctx, cancel := context.WithCancel(t.Context())
		begin := func(minor uint32, do work) disk.Number {
			n := disk.Number{Major: 8, Minor: minor}
			c.begin(ctx, decision{target: target{device: disk.Device{Number: n}, spec: &spec{}}}, do)
			return n
		}
		hung := begin(1, func(ctx context.Context, _ target, _ func(disk.Progress)) error { <-ctx.Done(); return nil })
		begin(2, func(ctx context.Context, _ target, report func(disk.Progress)) error {
			for sleep.For(ctx, time.Minute) {
				report(disk.Progress{})
			}
			return nil
		})
		time.Sleep(stuckAfter - time.Second)
		c.warnStuck(ctx)
		if len(got) > 0 {
			t.Errorf("%v after a moment", got)
		}
		time.Sleep(2 * time.Second)
		c.warnStuck(ctx)
		if len(got) != 1 || !strings.Contains(c.jobs[hung].why, "no progress since") {
			t.Errorf("%v, %q", got, c.jobs[hung].why)
		}
		cancel()
		c.running.Wait()
	})
}

// A PV whose disk is gone is looked at again as soon as that has lasted, also if the pass that found it
// took longer, and not for ever.
func TestNextAfterASlowPass(t *testing.T) {
	for _, row := range []struct{ gone, read, want time.Duration }{ // ago
		{time.Second, time.Second, absence - time.Second},
		{time.Minute, time.Minute, debounce},
		{time.Minute, 0, 5 * time.Minute},
	} {
		now := time.Now()
		c := &Controller{Config: Config{Interval: 5 * time.Minute}, readAt: now.Add(-row.read),
			goneFrom: map[types.UID]time.Time{"a": now.Add(-row.gone)}}
		if got := c.next(); got > row.want || got < row.want-500*time.Millisecond && got != debounce {
			t.Errorf("gone for %s, read %s ago: %s, want %s", row.gone, row.read, got, row.want)
		}
	}
}
