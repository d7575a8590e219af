package claimpools

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

// A holder that is kept costs one read of the PV that keeps it, and a list once that PV is gone.
func TestKeptHolderReadsOnePV(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
	c.pass(poolP())
	c.runs()
	first, second := volumeOn("n1"), volumeOn("n1")
	second.SetName("pv-other")
	c.create(first)
	c.create(second)
	removed := objects.Desired{Settled: true}
	for range 4 { // until the holder of n2 is gone
		c.pass(removed)
		c.runs()
	}
	now, lists := time.Now(), 0
	c.k.Now = func() time.Time { return now }
	c.k.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, from client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PersistentVolumeList); ok {
				lists++
			}
			return from.List(ctx, list, opts...)
		}})
	for _, step := range []struct {
		name  string
		do    func()
		lists int // 1 if all are read, 0 if not
		why   string
	}{
		{"as long as it is there", func() {}, 0, "PV pv-n1"},
		{"later, for the others that are named", func() { now = now.Add(time.Hour) }, 1, "PV pv-other"},
		{"the PV is gone", func() { c.gone(first) }, 1, "PV pv-other"},
		{"the other keeps it", func() {}, 0, "PV pv-other"},
		{"that one is of another node now", func() {
			c.gone(second)
			elsewhere := volumeOn("n2")
			elsewhere.SetName("pv-other")
			c.create(elsewhere)
		}, 1, ""},
	} {
		step.do()
		lists = 0
		c.runs()
		r := c.pass(removed)
		if told := strings.Join(r.Kept, "\n"); lists != step.lists || !strings.Contains(told, step.why) || told != "" && step.why == "" {
			t.Errorf("%s: all PVs were listed %d times, want %d; kept %q, want %q", step.name, lists, step.lists, r.Kept, step.why)
		}
	}
}
