package nodegone

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
)

// lostFor has node-01, of which the PV is, gone for longer than the grace period.
func lostFor(t *testing.T, policy string, change func(*scene)) (*world, *Reconciler) {
	t.Helper()
	s := newScene(policy)
	s.csi, s.capacity = nil, nil
	if change != nil {
		change(s)
	}
	w := newWorld(t, s.objects()...)
	r := w.operator()
	r.since["node-01"] = silence{at: time.Now().Add(-2 * grace)}
	return w, r
}

// The node comes back while the API server takes the event that announces the deletion, which may take as
// long as a busy server or a webhook likes. Nothing is deleted.
func TestNodeIsBackAfterTheAnnouncement(t *testing.T) {
	for _, policy := range []string{"release", "delete"} {
		for name, change := range map[string]func(*scene){"claim": nil, "PV": (*scene).unclaimed} {
			if policy == "delete" && name == "PV" {
				continue // it waits for its node
			}
			w, r := lostFor(t, policy, change)
			announced := false
			w.api.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
				node := &corev1.Node{}
				node.Name, node.UID = "node-01", "new"
				announced = true
				return false, nil, w.api.Tracker().Add(node)
			})
			if err := w.pass(r); err != nil || !announced || len(w.done) > 0 {
				t.Errorf("%s, %s: announced %t, written %q, %v", policy, name, announced, w.done, err)
			}
		}
	}
}

// The process stands still after its last look at the node. It writes nothing when it goes on, and looks
// again.
func TestStandsStillBeforeAWrite(t *testing.T) {
	defer func(d time.Duration) { fresh = d }(fresh)
	fresh = 20 * time.Millisecond
	for name, change := range map[string]func(*scene){
		"policy":    func(s *scene) { s.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete },
		"claim":     nil,
		"PV":        (*scene).unclaimed,
		"finalizer": func(s *scene) { s.unclaimed(); s.pv.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
	} {
		w, r := lostFor(t, "release", change)
		stopped := true
		w.api.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if stopped {
				time.Sleep(3 * fresh)
			}
			return false, nil, nil
		})
		if err := w.pass(r); err == nil || len(w.done) > 0 {
			t.Errorf("%s: written %q, %v", name, w.done, err)
		}
		stopped = false
		fresh = time.Minute
		if err := w.pass(r); err != nil || len(w.done) != 1 {
			t.Errorf("%s, later: written %q, %v", name, w.done, err)
		}
		fresh = 20 * time.Millisecond
	}
}

// A write that the client holds back, such as for a busy API server, has an end.
func TestWriteHasADeadline(t *testing.T) {
	w, r := lostFor(t, "release", nil)
	pv := w.pv("pvc-1")
	h, _ := identity.HomeOf(pv)
	s := step{pv, h, release, identity.NodeAbsent}
	r.since["node-01"] = silence{at: time.Now(), over: true, losses: map[loss]since{lossOf(h): {over: true}}}
	called := false
	err := r.ifGone(t.Context(), s, func(ctx context.Context, _ identity.NodeFacts) error {
		called = true
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > fresh {
			t.Errorf("deadline %v, %t", at, ok)
		}
		return nil
	})
	if err != nil || !called {
		t.Errorf("called %t, %v", called, err)
	}
}

// The process stood still for longer than a Lease lasts. The node may have been there meanwhile, and
// another process may lead, so the grace period begins again.
func TestGraceStartsAgainAfterAStop(t *testing.T) {
	w, r := lostFor(t, "release", nil)
	r.pulse.beat(time.Now().Add(-longestStop - time.Second))
	if err := w.pass(r); err != nil || len(w.done) > 0 {
		t.Fatalf("after the stop: written %q, %v", w.done, err)
	}
	r.elapse(grace / 2)
	r.pulse.resumed = r.pulse.resumed.Add(-grace / 2)
	if err := w.pass(r); err != nil || len(w.done) > 0 {
		t.Fatalf("half of the grace: written %q, %v", w.done, err)
	}
	r.elapse(grace)
	r.pulse.resumed = r.pulse.resumed.Add(-grace)
	if err := w.pass(r); err != nil || len(w.done) == 0 {
		t.Errorf("the grace is over: written %q, %v", w.done, err)
	}
}

// Either clock shows a stop: the monotonic one does not run while a machine is suspended, and the other one
// may be set back meanwhile.
func TestStopsByEitherClock(t *testing.T) {
	now := time.Now()
	for name, row := range map[string]struct {
		after time.Time
		stop  bool
	}{
		"a second":                 {after: now.Add(time.Second)},
		"a stop":                   {after: now.Add(longestStop + 1), stop: true},
		"by the other clock alone": {after: now.Round(0).Add(longestStop + 1), stop: true},
		"set back":                 {after: now.Round(0).Add(-time.Hour), stop: true},
	} {
		p := &pulse{}
		if !p.beat(now).IsZero() {
			t.Errorf("%s: stood still at first", name)
		}
		if stop := !p.beat(row.after).IsZero(); stop != row.stop {
			t.Errorf("%s: stop %t", name, stop)
		}
	}
}
