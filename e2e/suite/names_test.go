package suite

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The label kubernetes.io/hostname is what the scheduler matches, whatever the node is called.
func TestHostnameLabel(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.NodeNamed(s.Name+"-node-01", s.Name+"-host-a"), harness.Options{})
	annotated := s.Create(harness.Claim{Node: a.Node.Name})
	delayed := s.Create(harness.Claim{Class: harness.ClassDelayed})
	for _, claim := range []string{annotated.Name, delayed.Name} {
		if node := s.Scheduled(s.Pod(claim, a.Node.Hostname)); node != a.Node.Name {
			t.Errorf("pod on %s, want %s", node, a.Node.Name)
		}
	}
	for _, pv := range []string{s.Bound(annotated).Name, s.Bound(delayed).Name} {
		got := s.PV(pv)
		term := got.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
		if term.Key != "kubernetes.io/hostname" || len(term.Values) != 1 || term.Values[0] != a.Node.Hostname {
			t.Errorf("affinity %v, want the hostname %s", term, a.Node.Hostname)
		}
		if on := got.Annotations[harness.AnnProvisionOnNode]; on != a.Node.Name {
			t.Errorf("annotation %s, want the node %s", on, a.Node.Name)
		}
	}
}

func TestNamingPrefix(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{Env: []string{"USE_NAMING_PREFIX=True"}})
	const longest = 253 // what the API takes for a claim; a directory has room for 255 bytes in all
	for _, name := range []string{"data", strings.Repeat("long-", longest/5) + "end"} {
		claim := s.Create(harness.Claim{Name: name, Node: a.Node.Name})
		pv := s.Bound(claim)
		suffix := "-" + harness.PVName(claim)
		want := name[:min(len(name), 255-len(suffix))] + suffix
		if got := filepath.Base(pv.Spec.HostPath.Path); got != want || len(got) > 255 {
			t.Errorf("directory %q, want %q", got, want)
		}
		if err := harness.Exists(pv.Spec.HostPath.Path); err != nil {
			t.Error(err)
		}
		s.Delete(claim)
		s.Gone(pv.Name)
	}
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// A volume keeps the name that it was made with.
func TestNamingPrefixTurnedOff(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{})
	a.Stop()
	a.RestartWith("USE_NAMING_PREFIX=true")
	a.AwaitReady()
	claim := s.Create(harness.Claim{Name: "data", Node: a.Node.Name})
	pv := s.Bound(claim)
	a.Stop()
	a.Restart()
	a.AwaitReady()
	wantTree(s, a.Pool, "data-"+harness.PVName(claim))
	s.Delete(claim)
	s.Gone(pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// Node names may be longer than labels.
func TestLongNodeName(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	name := s.Name + strings.Repeat(".segment-of-a-name", 6) + "-01"
	a := s.Agent(s.NodeNamed(name, s.Name+"-short"), harness.Options{})
	claim := s.Create(harness.Claim{Node: name})
	pv := s.Bound(claim)
	sum := sha256.Sum256([]byte(name))
	if got, want := pv.Labels[harness.LabelNode], "sha256-"+hex.EncodeToString(sum[:])[:40]; got != want {
		t.Errorf("label %q, want %q", got, want)
	}
	if got := pv.Annotations[harness.AnnProvisionOnNode]; got != name {
		t.Errorf("annotation %q, want %q", got, name)
	}
	a.Stop()
	a.Restart()
	a.AwaitReady()
	s.Delete(claim)
	s.Gone(pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}
