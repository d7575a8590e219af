package nodegone

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWriteThatIsUndone has a webhook put the reclaim policy back. The watch reports each write of
// the operator, so that the next pass follows at once: it writes once a minute, gives nothing up,
// and one event names the cause.
func TestWriteThatIsUndone(t *testing.T) {
	s := newScene("release")
	s.csi, s.capacity = nil, nil
	s.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	w := newWorld(t, s.objects()...)
	r := w.operator()
	r.since["node-01"] = silence{at: time.Now().Add(-2 * grace)}
	passes := func(times int) {
		for range times {
			if err := w.pass(r); err != nil {
				t.Fatal(err)
			}
			if pv := w.pv("pvc-1"); pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
				pv = pv.DeepCopy()
				pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
				w.put("persistentvolumes", pv)
			}
		}
	}
	passes(10)
	if len(w.done) != 1 {
		t.Errorf("written in one moment: %q, want one patch of the PV", w.done)
	}
	r.wrote.Now = func() time.Time { return time.Now().Add(checkInterval) }
	passes(10)
	if len(w.done) != 2 {
		t.Errorf("written in two minutes: %q, want two patches of the PV", w.done)
	}
	said, err := w.api.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil || len(said.Items) != 1 {
		t.Errorf("events %v, %v, want one", said.Items, err)
	}
}
