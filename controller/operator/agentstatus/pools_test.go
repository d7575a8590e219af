package agentstatus

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// publishing has the agents publish their pools: the state of pool a in that pod, "" for none.
func publishing(o Observed, pod string, open bool) Observed {
	for i := range o.Pods {
		o.Pods[i].Spec.Containers = []corev1.Container{{ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: contract.ProbePath}}}}}
	}
	if pod != "" {
		c := storagev1.CSIStorageCapacity{StorageClassName: contract.PoolsClass,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: "node-a"}}}
		_ = contract.NodePools{Pod: pod, Pools: []contract.NodePool{{Name: "a", Open: open}}}.Publish(&c)
		o.Published = []storagev1.CSIStorageCapacity{c}
	}
	return o
}

// A pool counts as open where the agent that runs now has published so. One of an earlier version
// publishes nothing, and is ready only with its pools.
func TestPools(t *testing.T) {
	one := func() Observed {
		o := observed("r")
		o.DaemonSet.Status.DesiredNumberScheduled, o.DaemonSet.Status.CurrentNumberScheduled = 1, 1
		o.DaemonSet.Status.UpdatedNumberScheduled, o.DaemonSet.Status.NumberReady = 1, 1
		return o
	}
	unready := one()
	unready.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
	later := publishing(one(), "", false)
	later.Now = now.Add(Startup)
	for name, row := range map[string]struct {
		o            Observed
		open, closed int
		counting     bool
	}{
		"of an earlier version":         {one(), 1, 0, false},
		"earlier version, not ready":    {unready, 0, 0, false},
		"open":                          {publishing(one(), "agent-a", true), 1, 0, false},
		"not open":                      {publishing(one(), "agent-a", false), 0, 1, false},
		"published by the agent before": {publishing(one(), "agent-z", true), 0, 1, true},
		"not published yet":             {publishing(one(), "", true), 0, 1, true},
		"not published for long":        {later, 0, 1, false},
	} {
		s := Of(row.o)
		none := func(string) bool { return false }
		if s.Open("a") != row.open || len(s.Closed(none)) != row.closed || s.Counting != row.counting || s.Counting && s.Left <= 0 {
			t.Errorf("%s: open on %d, closed %v, counting %t, left %s", name, s.Open("a"), s.Closed(none), s.Counting, s.Left)
		}
		if s.Open("b") != 0 && name != "of an earlier version" {
			t.Errorf("%s: another pool is open", name)
		}
	}
	if s := Of(publishing(one(), "agent-a", false)); s.Left > time.Hour || len(s.Closed(func(p string) bool { return p == "a" })) != 0 {
		t.Errorf("%+v", s)
	}
}
