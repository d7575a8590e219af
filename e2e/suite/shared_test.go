package suite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A pool that is shared between nodes is not offered. It alone is not ready: the other one of the
// list is served, the Node has an event, and each claim that asks for it has the reason, also one
// that the scheduler never places.
func TestSharedPool(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	shared := s.Path("pools", "shared")
	a := s.Start(node, harness.Options{CSI: "csi", DataDir: fmt.Sprintf(
		`[{"name":"nfs","path":%q,"shared":true},{"name":%q,"path":%q}]`, shared, harness.LocalPool, node.Pool)})
	class := s.CSIClass("nfs", func(c *storagev1.StorageClass) { c.Parameters[harness.StoragePool] = "nfs" })
	s.Eventually("published, or another agent knows of no such pool", func() error {
		return s.CapacityIs(class, node, func(b int64) bool { return b == 0 })
	})
	served := s.Create(harness.Claim{Class: harness.ClassCSI, Selected: node.Name})
	waiting := s.Create(harness.Claim{Class: class})
	s.Pod(waiting.Name, node.Hostname)
	chosen := s.Create(harness.Claim{Class: class, Selected: node.Name})

	s.Bound(served)
	a.AwaitUnready("pools shared between nodes are not offered")
	s.Eventually("event on the node", func() error { return nodeEvent(s, node, harness.ReasonNotReady) })
	s.Eventually("refusal and return", func() error {
		all := slices.DeleteFunc(s.Events(chosen.UID), func(e harness.Event) bool {
			return e.Type != corev1.EventTypeWarning || !e.Ours() || e.Reason == "QuotaNotEnforced"
		})
		// Once it was given back it is a claim that nobody places, and has a word like the other
		// one.
		if len(all) != 1 && len(all) != 2 || slices.ContainsFunc(all, func(e harness.Event) bool {
			return e.Count != 1 || e.Reason != harness.ReasonFailed || !strings.Contains(e.Message, node.Name) ||
				!strings.Contains(e.Message, "nfs") || !strings.Contains(e.Message, "shared between nodes")
		}) {
			return fmt.Errorf("warnings %+v, want one or two of the pool that is shared", all)
		}
		return nil
	})
	s.Eventually("word to the claim that nobody places", func() error {
		return s.Warned(waiting.UID, harness.ReasonFailed, node.Name, "nfs", "shared between nodes", "another pool")
	})
	if err := harness.Missing(shared); err != nil {
		t.Error(err)
	}
	if !a.Alive() {
		t.Error("the agent has ended")
	}
}
