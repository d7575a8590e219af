package recovery

import (
	"strings"
	"sync"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
)

// Two administrators recover at once, from one plan: each object is made once, whoever is late says that it
// exists, and one more run changes nothing.
func TestTwoRecoverAtOnce(t *testing.T) {
	for range 3 {
		l := newLost(t, 3)
		other := &Recovery{Client: l.Client, Options: l.Options}
		var both sync.WaitGroup
		var said [2][]*Volume
		for i, r := range []*Recovery{l.Recovery, other} {
			all, err := r.Decide(t.Context(), []agents.Planned{l.plan})
			l.must(err)
			said[i] = all
		}
		for i, r := range []*Recovery{l.Recovery, other} {
			both.Go(func() { r.Apply(t.Context(), said[i]) })
		}
		both.Wait()
		for _, all := range said {
			for _, v := range all {
				if v.Failed != "" && !strings.Contains(v.Failed, "already exists") && !strings.Contains(v.Failed, "changed since the plan") {
					t.Errorf("%s: %s", v.PVName, v.Failed)
				}
			}
		}
		for _, v := range l.run() {
			if v.Verdict == recovery.Left {
				t.Errorf("after both: %s is left: %s", v.PVName, v.Why)
			}
		}
		l.bound("after two at once")
		if l.run(); l.writes != 0 {
			t.Errorf("one more run makes %d writes", l.writes)
		}
	}
}
