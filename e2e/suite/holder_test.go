package suite

import (
	"errors"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// One pool has one agent. The agent of another node that got the same pool by mistake says so and
// waits.
func TestSecondAgentOnThePool(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	second := s.Node("02")
	b := s.Start(second, harness.Options{Pool: a.Pool})
	b.AwaitUnready(`in use(.|\n)*` + a.Node.Name)
	s.Eventually("event on the node", func() error { return nodeEvent(s, second, harness.ReasonNotReady) })
	claim := s.Create(harness.Claim{Node: second.Name})
	s.AwaitWarning(b, claim.UID, harness.ReasonFailed, `in use by .*`+a.Node.Name)
	s.Once("pool of another agent", func() error {
		if children := s.Children(a.Pool); len(children) > 0 {
			return errors.New("the pool is written to")
		}
		return firstError(a.Ready(), s.IsPending(claim))
	})
	a.Stop()
	b.AwaitReady()
	s.Bound(claim)
	a.Restart()
	a.AwaitUnready(`in use(.|\n)*` + second.Name)
}

// While a new version is rolled out, the old agent of a node may end with work undone that the new
// one has seen already.
func TestNewAgentTakesOver(t *testing.T) {
	t.Parallel()
	s, old := oneNode(t)
	deleted := s.Create(harness.Claim{Node: old.Node.Name})
	pv := s.Bound(deleted)
	next := s.Start(old.Node, harness.Options{})
	next.AwaitUnready(`in use(.|\n)*` + old.Node.Name)

	old.Pause()
	deletions, claims := s.Queue(next, harness.QueueVolumes), s.Queue(next, harness.QueueClaims)
	s.Delete(deleted)
	s.Released(pv.Name)
	made := s.Create(harness.Claim{Node: old.Node.Name})
	s.Until("nobody at work", func() error { return firstError(claims.Handled(), deletions.TriedAgain()) }, func() error {
		return firstError(s.IsPending(made), s.Unwarned(made.UID), harness.Exists(pv.Spec.HostPath.Path))
	})
	old.Kill()
	next.AwaitReady()
	s.Bound(made)
	s.Gone(pv.Name)
	wantTree(s, old.Pool, harness.PVName(made))
}
