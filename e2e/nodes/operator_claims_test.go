package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// olderClaimTests are the existing operator's functional tests of claims, by their names.
var olderClaimTests = map[string]func(*testing.T, *harness.Scene){
	"TestCreatePVCOnNode1":               immediateOnANode,
	"TestCreatePVCWaitForConsumerLegacy": delayedFollowsThePod,
	"TestCreatePVCWaitForConsumerCsi":    csiPersists,
	"TestFsGroup":                        csiFSGroup,
	"TestPVCSize":                        operatorClaimSize,
}

// operatorClaims makes claims for the agents that the operator installed.
func operatorClaims(s *harness.Scene) {
	for name, run := range olderClaimTests {
		s.TB.(*testing.T).Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newScene(t))
		})
	}
}

// operatorClaimSize wants PVs and claims of the size that was requested: the resource has no key
// for the whole disk's size.
func operatorClaimSize(t *testing.T, s *harness.Scene) {
	for _, c := range []harness.Claim{{Node: one.Name, Size: "24Mi"}, {Class: csiClass, Size: "24Mi"}} {
		claim := s.Create(c)
		if c.Node == "" {
			end(s, pod{claim: claim.Name, script: "true"}.run(s)) // the scheduler chooses the node for a pod
		}
		pv, now := s.Bound(claim), s.Read(claim)
		for what, got := range map[string]corev1.ResourceList{"PV": pv.Spec.Capacity, "claim": now.Status.Capacity} {
			if size := got.Storage().String(); size != c.Size {
				t.Errorf("%s %s has %s, want %s", what, pv.Name, size, c.Size)
			}
		}
	}
}
