package nodegone

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// TestGraceStartsAgain has a node absent for long, whose agent is ready from time to time. The
// grace period counts from when it was ready last, also if it was so between two checks, or if
// another operator was the last to see it.
func TestGraceStartsAgain(t *testing.T) {
	s := newScene("release")
	s.csi, s.capacity = nil, nil
	s.answers(corev1.ConditionTrue)
	w := newWorld(t, s.objects()...)
	r := w.operator()
	pass := func(when string, wrote bool) {
		t.Helper()
		if err := w.pass(r); err != nil || (len(w.done) > 0) != wrote {
			t.Fatalf("%s: written %q, %v", when, w.done, err)
		}
	}
	elapse := func(d time.Duration) { r.elapse(d) }
	ready := func(is corev1.ConditionStatus, since time.Duration) {
		s.agent = s.agent.DeepCopy()
		s.agent.Status.Conditions[0].Status, s.agent.Status.Conditions[0].LastTransitionTime = is, metav1.NewTime(time.Now().Add(-since))
		w.put("pods", s.agent)
	}
	pass("the agent is ready", false)
	elapse(2 * grace)
	pass("still ready", false)
	ready(corev1.ConditionFalse, 2*grace) // the clock of its node is wrong
	elapse(grace / 2)
	pass("not ready any more", false)
	elapse(grace / 2)
	pass("half of the grace", false)
	ready(corev1.ConditionFalse, time.Second)
	elapse(grace)
	pass("it was ready a second ago", false)
	ready(corev1.ConditionFalse, 2*grace)
	r = w.operator()
	pass("another operator", false)
	ready(corev1.ConditionFalse, -time.Hour)
	elapse(grace)
	pass("its node's clock is an hour fast", false)
	ready(corev1.ConditionFalse, 2*grace)
	elapse(grace + time.Second)
	pass("the grace is over", true)
}

// elapse has time pass for the reconciler.
func (r *Reconciler) elapse(d time.Duration) {
	q := r.since["node-01"]
	q.at = q.at.Add(-d)
	for key, s := range q.losses {
		s.at = s.at.Add(-d)
		q.losses[key] = s
	}
	r.since["node-01"] = q
}

// TestGraceOfTheLoss has one PV of a Node that was made again wait for its disk, for long. A disk
// that is given up then has a grace period of its own: it may be mounted later than its agent starts.
func TestGraceOfTheLoss(t *testing.T) {
	s := newScene("")
	s.replaced(corev1.ConditionFalse)
	s.capacity = nil
	s.csi.Annotations[contract.AnnNodeUID], s.csi.Annotations[contract.AnnPool] = "new", "beef"
	w := newWorld(t, s.objects()...)
	r := w.operator()
	pass := func(when string, acts bool) {
		t.Helper()
		w.done = nil
		if err := w.pass(r); err != nil || strings.Contains(strings.Join(w.done, " "), "persistentvolumes") != acts {
			t.Errorf("%s: written %q, %v", when, w.done, err)
		}
	}
	pass("the first time", false)
	r.elapse(10 * grace)
	pass("pvc-1 is reported", false)
	s.node = s.node.DeepCopy()
	s.node.Annotations = map[string]string{contract.AnnGiveUp: "beef"}
	w.put("nodes", s.node)
	pv := w.pv("pvc-2").DeepCopy()
	pv.Annotations[contract.AnnMissing] = "pool/new"
	w.put("persistentvolumes", pv)
	pass("given up just now", false)
	r.elapse(grace / 2)
	pass("half of the grace", false)
	r.elapse(grace)
	pass("the grace is over", true)
}

// TestGraceAfterAnUpgrade has a PV that an earlier version gave up half-way. The next version waits a grace period
// of its own, because no loss is written down, and then goes on where the other stopped.
func TestGraceAfterAnUpgrade(t *testing.T) {
	s := newScene("")
	s.abandoned("pvc-1")
	s.pv.Annotations[contract.AnnGivenUp] = "new"
	s.csi, s.capacity = nil, nil
	w := newWorld(t, s.objects()...)
	r := w.operator()
	for _, elapsed := range []time.Duration{0, grace / 2} {
		if r.elapse(elapsed); w.pass(r) != nil || len(w.done) > 0 {
			t.Errorf("after %s of the grace: written %q", elapsed, w.done)
		}
	}
	r.elapse(grace)
	if err := w.pass(r); err != nil || !slices.Equal(w.done, []string{"delete persistentvolumeclaims"}) {
		t.Errorf("after the grace: written %q, %v", w.done, err)
	}
}

// TestGraceIsByTheOwnClock has an agent that was ready between two checks, by the time in its pod's status. From
// then on the grace period is measured by a clock that no one sets: it has a monotonic reading.
func TestGraceIsByTheOwnClock(t *testing.T) {
	s := newScene("")
	w := newWorld(t, s.objects()...)
	r := w.operator()
	if err := w.pass(r); err != nil {
		t.Fatal(err)
	}
	r.elapse(grace / 2)
	s.answers(corev1.ConditionFalse)
	since := metav1.NewTime(time.Now().Add(-grace / 6))
	s.agent.Status.Conditions[0].LastTransitionTime = since.Rfc3339Copy() // as the API server answers
	w.put("pods", s.agent)
	if err := w.pass(r); err != nil {
		t.Fatal(err)
	}
	at := r.since["node-01"].at
	if passed := time.Since(at); passed < grace/6 || passed > grace/3 || !strings.Contains(at.String(), " m=") {
		t.Errorf("the grace period began %s ago, at %s", passed, at)
	}
}

// TestAgentsAreAskedOnce has the volumes of an absent Node in one to three pools. A pass asks for the
// node's agents as often for all of them as for one.
func TestAgentsAreAskedOnce(t *testing.T) {
	asked := map[int]int{}
	for pools := 1; pools <= 3; pools++ {
		s := newScene("")
		objects := s.objects()
		for i := 1; i < pools; i++ {
			pv := s.pv.DeepCopy()
			pv.Name, pv.UID = fmt.Sprintf("other-%d", i), types.UID(fmt.Sprint(i))
			pv.Annotations[contract.AnnPool] = fmt.Sprintf("pool-%d", i)
			objects = append(objects, pv)
		}
		w := newWorld(t, objects...)
		r := w.operator()
		if err := w.pass(r); err != nil {
			t.Fatal(err)
		}
		r.elapse(10 * grace)
		w.api.ClearActions()
		if err := w.pass(r); err != nil {
			t.Fatal(err)
		}
		for _, a := range w.api.Actions() {
			if a.Matches("list", "pods") {
				asked[pools]++
			}
		}
	}
	if asked[1] == 0 || asked[2] != asked[1] || asked[3] != asked[1] {
		t.Errorf("lists of pods by the number of pools: %v", asked)
	}
}

// A PV whose claim was deleted by the policy waits for its node, perhaps for ever: nothing of it is read
// meanwhile.
func TestGivenUpIsLeftAlone(t *testing.T) {
	s := newScene("delete")
	s.csi, s.capacity = nil, nil
	s.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	w := newWorld(t, s.objects()...)
	r := w.operator()
	for range 3 {
		if err := w.pass(r); err != nil {
			t.Fatal(err)
		}
		r.elapse(10 * grace)
		w.settle()
	}
	if phase := w.pv("pvc-1").Status.Phase; phase != corev1.VolumeReleased {
		t.Fatalf("the PV is %s", phase)
	}
	w.api.ClearActions()
	if err := w.pass(r); err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, a := range w.api.Actions() {
		if a.Matches("get", "persistentvolumes") || a.Matches("get", "persistentvolumeclaims") {
			t.Errorf("it asks: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
		read++
	}
	if read == 0 {
		t.Error("the pass asks nothing at all, not even whether the Node is there")
	}
}

// A release that never ends, because a webhook puts the policy back, is tried once a minute in the end.
func TestReleaseThatDoesNotEnd(t *testing.T) {
	r := &Reconciler{since: map[string]silence{}}
	var pauses []time.Duration
	for range 6 {
		pauses = append(pauses, r.pause("node-01", true))
	}
	if pauses[0] != releaseInterval || pauses[5] != checkInterval || !slices.IsSorted(pauses) {
		t.Errorf("pauses %s", pauses)
	}
	if p := r.pause("node-01", false); p != 0 {
		t.Errorf("nothing is released, and the pause is %s", p)
	}
	if p := r.pause("node-01", true); p != releaseInterval {
		t.Errorf("the next release begins after %s", p)
	}
}
