package disks

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// reasons is a Recorder that keeps the reasons of events.
type reasons struct{ all *[]string }

func (r reasons) Warn(_ context.Context, _ corev1.ObjectReference, _, reason, _ string) {
	*r.all = append(*r.all, reason)
}

func (r reasons) Note(_ context.Context, _ corev1.ObjectReference, _, reason, _ string) {
	*r.all = append(*r.all, reason)
}

// A PV is withdrawn only as it was read: the API server keeps one that changed, which a claim may
// have. Then the report and the event stay.
func TestWithdrawnAsItWasRead(t *testing.T) {
	for name, row := range map[string]struct {
		refusal error
		events  []string
		state   State
	}{
		"unchanged": {nil, []string{"DeviceWithdrawn"}, ""},
		"changed": {apierrors.NewConflict(corev1.Resource("persistentvolumes"), pvA, nil), []string{"DeviceUnclear"},
			Unclear},
	} {
		t.Run(name, func(t *testing.T) {
			n := emptyNode(t)
			pv := n.made(pvA, device("/dev/a", 1, ""), corev1.VolumeAvailable)
			pv.ResourceVersion = "7"
			n.at = map[string]disk.Device{}
			n.attach(device("/dev/a", 9, ""))
			client := fake.NewClientset(pv)
			client.PrependReactor("delete", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
				p := a.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
				if p == nil || p.UID == nil || *p.UID != pv.UID || p.ResourceVersion == nil || *p.ResourceVersion != "7" {
					t.Errorf("deleted on the condition %+v, want the UID and the version that were read", p)
				}
				return row.refusal != nil, nil, row.refusal
			})
			var events []string
			c := New(Config{Client: client, Events: reasons{&events}, Node: "n"})
			reports := c.apply(t.Context(), plan(n.found))
			if !slices.Equal(events, row.events) {
				t.Errorf("events %q, want %q", events, row.events)
			}
			if row.state == "" && len(reports) > 0 || row.state != "" && (len(reports) != 1 || reports[0].State != row.state) {
				t.Errorf("reports %+v, want the state %q", reports, row.state)
			}
		})
	}
}

// The PV may change between plan and apply, and during a wipe of hours. If it is not the Released
// PV of that disk any more, the disk is not wiped, and the PV not deleted.
func TestStillReleased(t *testing.T) {
	a := device("/dev/a", 1, diskA)
	for name, row := range map[string]struct {
		edit func(*corev1.PersistentVolume)
		may  bool
	}{
		"unchanged":       {func(*corev1.PersistentVolume) {}, true},
		"a PV made again": {func(pv *corev1.PersistentVolume) { pv.UID = "another" }, false},
		"its claimRef is removed": {func(pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef, pv.Status.Phase = nil, corev1.VolumeAvailable
		}, false},
		"bound to a claim": {func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound }, false},
		"another path":     {func(pv *corev1.PersistentVolume) { pv.Spec.Local.Path = "/dev/b" }, false},
		"another disk":     {func(pv *corev1.PersistentVolume) { pv.Annotations[AnnDisk] = diskB }, false},
		"no disk": {func(pv *corev1.PersistentVolume) {
			delete(pv.Annotations, AnnDisk)
			delete(pv.Annotations, AnnAttachment)
		}, false},
		"another Node's":       {func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnNodeUID] = "another" }, false},
		"another is confirmed": {func(pv *corev1.PersistentVolume) { pv.Annotations[AnnConfirmed] = diskB }, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := emptyNode(t)
			n.attach(a)
			pv := n.made(pvA, a, corev1.VolumeReleased)
			decisions := plan(n.found)
			if decisions[0].action != release {
				t.Fatalf("planned: %q", outcomes(decisions))
			}
			now := pv.DeepCopy()
			row.edit(now)
			c := New(Config{Client: fake.NewClientset(now), Node: "n"})
			_, err := c.stillReleased(t.Context(), decisions[0].target)
			if (err == nil) != row.may || err != nil && !errors.Is(err, errEnded) {
				t.Errorf("%v; may be wiped: %v", err, row.may)
			}
		})
	}
	n := emptyNode(t)
	n.attach(a)
	n.made(pvA, a, corev1.VolumeReleased)
	c := New(Config{Client: fake.NewClientset(), Node: "n"})
	if _, err := c.stillReleased(t.Context(), plan(n.found)[0].target); !errors.Is(err, errEnded) {
		t.Errorf("the PV is gone: %v", err)
	}
}

// wipedPartly ends a wipe whose PV is not Released any more. Otherwise the wipe could write its
// first byte after the plan, and the next tenant would get the PV.
func TestWipeOfNoReleasedPVEnds(t *testing.T) {
	for phase, ends := range map[corev1.PersistentVolumePhase]bool{
		corev1.VolumeReleased: false, corev1.VolumeAvailable: true, corev1.VolumeBound: true, corev1.VolumeFailed: true,
		"deleted": true,
	} {
		t.Run(string(phase), func(t *testing.T) {
			n := emptyNode(t)
			d := device("/dev/a", 1, diskA)
			n.attach(d)
			pv := n.made(pvA, d, corev1.VolumeReleased)
			c := New(Config{Client: apitest.Listing(fake.NewClientset(pv)), Events: quiet{}, Node: "n", Interval: time.Minute})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			ended := make(chan error, 1)
			c.begin(ctx, plan(n.found)[0], func(ctx context.Context, _ target, _ func(disk.Progress)) error {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return ctx.Err()
			})
			c.begun[pv.UID] = true
			now := pv.DeepCopy()
			now.Status.Phase = phase
			pvs := []*corev1.PersistentVolume{now}
			if phase == "deleted" {
				pvs = nil
			}
			if partly := c.wipedPartly(pvs); partly[pv.UID] != (pvs != nil) {
				t.Errorf("the disk is wiped in part: %v", partly)
			}
			if !ends {
				cancel()
			}
			if err := <-ended; errors.Is(err, errEnded) != ends {
				t.Errorf("the wipe ended with %v", err)
			}
			cancel()
			c.running.Wait()
			if c.begun[pv.UID] != (pvs != nil) {
				t.Errorf("the note of the wipe is kept: %v", c.begun)
			}
		})
	}
}

// apply ends or keeps the job of a device, and the record that it was wiped, by the action.
func TestApplyEndsWork(t *testing.T) {
	for a, row := range map[action]struct{ runs, clean bool }{leave: {true, true}, stop: {false, true},
		keep: {false, false}} {
		t.Run(a.String(), func(t *testing.T) {
			c := New(Config{Events: quiet{}, Node: "n", Interval: time.Minute})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			d := decision{action: a, target: target{device: device("/dev/a", 1, diskA), spec: &spec{}}}
			stopped := make(chan bool, 1)
			c.begin(ctx, d, func(ctx context.Context, _ target, _ func(disk.Progress)) error {
				<-ctx.Done()
				stopped <- errors.Is(context.Cause(ctx), errEnded)
				return ctx.Err()
			})
			c.clean[d.device.Number] = cleaned{target: d.target}
			c.apply(ctx, []decision{d})
			if row.runs {
				cancel()
			}
			if got := <-stopped; got == row.runs {
				t.Errorf("the work was ended: %v", got)
			}
			cancel()
			c.running.Wait()
			if _, clean := c.clean[d.device.Number]; clean != row.clean {
				t.Errorf("the device counts as wiped: %v", clean)
			}
		})
	}
}
