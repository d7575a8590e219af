package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// An agent starts with a configuration that lost a path with volumes, as after a reboot: the path
// stays a pool without new volumes, and one event says so. Its volumes are deleted as before, and
// after the last one the agent starts again without it.
func TestLocalPathLostPath(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	second := s.Path("pools", "second")
	o := localPathOptions(s, node.Pool, second)
	a := s.Agent(node, o)
	class := localPathClass(s, "second", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"nodePath": second} })
	claim := s.Create(harness.Claim{Class: class, Selected: node.Name})
	pv := s.Bound(claim)
	noted := func(is bool) {
		t.Helper()
		s.Eventually("note", func() error {
			text, err := os.ReadFile(filepath.Join(node.Pool, ".hostpath-provisioner", "paths.json"))
			if strings.Contains(string(text), second) != is {
				return fmt.Errorf("it is %q (%w)", text, err)
			}
			return nil
		})
	}
	noted(true)

	a.Stop()
	writeConfig(s, configOf(o), map[string]any{"nodePathMap": pathMap{}.on(defaultNode, node.Pool)})
	for range 2 {
		a.Restart()
		a.AwaitReady()
		s.Eventually("told", func() error { return nodeSays(s, node, "ConfigurationRefused", second+", which has volumes") })
		refused := s.Create(harness.Claim{Class: class, Selected: node.Name})
		s.AwaitWarning(a, refused.UID, harness.ReasonFailed, second)
		s.Delete(refused)
		a.Stop()
	}
	if n := events(s, node, "ConfigurationRefused"); n != 1 {
		t.Errorf("%d events, want one", n)
	}
	a.Restart()
	a.AwaitReady()
	elsewhere := s.Create(harness.Claim{Class: localPathClass(s, "any", nil), Selected: node.Name})
	if err := isLocalPathPV(a, s.Bound(elsewhere), filepath.Join(node.Pool, localPathDirectory(elsewhere)), false); err != nil {
		t.Error(err)
	}
	ask(s, claim, "25Mi")
	s.Eventually("grown", func() error {
		if size := s.Read(claim).Status.Capacity.Storage(); size.String() != "25Mi" {
			return fmt.Errorf("the claim has %s", size)
		}
		return nil
	})
	s.Delete(claim)
	s.Gone(pv.Name)
	awaitEnd(s, a)
	noted(false)
	a.Restart()
	a.AwaitReady()
}

// events counts the Node's events of a reason.
func events(s *harness.Scene, node harness.Node, reason string) (n int) {
	for _, e := range s.Events(types.UID(node.Name)) {
		if e.Reason == reason {
			n++
		}
	}
	return n
}
