package recovery

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
)

// Two administrators recover at once, from one plan, and one is overtaken right before a write of his: each
// object is made once, he says that it exists, and writes nothing more of that volume. One more run ends
// what is left, and another changes nothing.
func TestTwoRecoverAtOnce(t *testing.T) {
	for _, overtaken := range []string{"persistentvolumeclaims", "persistentvolumes"} {
		l := newLost(t, 1)
		all, err := l.Decide(t.Context(), []agents.Planned{l.plan})
		l.must(err)
		l.writes = 0
		l.objects.PrependReactor("create", overtaken, func(clienttesting.Action) (bool, runtime.Object, error) {
			claim, pv := l.plan.Volumes[0].Objects.Claim.DeepCopy(), l.plan.Volumes[0].Objects.PV.DeepCopy()
			claim.UID, pv.Spec.ClaimRef.UID = "of the other", "of the other"
			if overtaken == "persistentvolumeclaims" {
				l.must(l.objects.Tracker().Add(claim))
			} else {
				l.must(l.objects.Tracker().Add(pv))
			}
			return false, nil, nil
		})
		l.Apply(t.Context(), all)
		if want := map[string]int{"persistentvolumeclaims": 1, "persistentvolumes": 2}[overtaken]; !strings.Contains(all[0].Failed, "already exists") || l.writes != want {
			t.Errorf("overtaken at %s: %q, %d attempts; want %d", overtaken, all[0].Failed, l.writes, want)
		}
		l.objects.ReactionChain = l.objects.ReactionChain[1:]
		l.bind() // what is there of both
		l.run()
		l.bound("overtaken at " + overtaken)
		if l.run(); l.writes != 0 {
			t.Errorf("overtaken at %s: one more run makes %d writes", overtaken, l.writes)
		}
	}
}
