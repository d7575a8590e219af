package agentstatus

import "testing"

// The agents are settled only if each node that is to have one has it: numbers that agree by
// chance, of a node that lost its agent and another one that still has one, prove nothing.
func TestSettled(t *testing.T) {
	for _, row := range []struct {
		name, pods   string
		misscheduled int32
		want         bool
	}{
		{"all", "rr", 0, true},
		{"none is ready", "uu", 0, true},
		{"one too many", "rrr", 0, false},
		{"one too few", "r", 0, false},
		{"with a misscheduled one", "rrr", 1, true},
		{"beside a misscheduled one, another ends", "rer", 1, false},
		{"beside a misscheduled one, another is gone", "rr", 1, false},
		{"one came before it is counted, and another ends", "rer", 0, false},
		{"a pod waits for its node", "rrn", 0, false},
		{"another's pod", "rro", 0, true},
	} {
		o := observed(row.pods)
		o.DaemonSet.Status.NumberMisscheduled = row.misscheduled
		if s := Of(o); s.Settled != row.want {
			t.Errorf("%s: settled is %v, running on %d nodes", row.name, s.Settled, len(s.Running))
		}
	}
	twice := observed("rr")
	twice.Pods[1].Spec.NodeName = twice.Pods[0].Spec.NodeName
	if Of(twice).Settled {
		t.Error("two agents on one node count as two nodes")
	}
}
