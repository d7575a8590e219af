package nodegone

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	elapse := func(d time.Duration) {
		q := r.since["node-01"]
		q.at = q.at.Add(-d)
		r.since["node-01"] = q
	}
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
