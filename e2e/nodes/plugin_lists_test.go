package nodes

import (
	"errors"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The commands of the plugin that list, on the real cluster, with the answers of real agents.
func TestPluginLists(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	created := s.Create(harness.Claim{Node: one.Name})
	pv, claim := s.Bound(created), created.Name
	row := func(want ...string) func(string) error { // a line has all of these
		return func(out string) error {
			for line := range strings.Lines(out) {
				if containsAll(line, want) == nil {
					return nil
				}
			}
			return errors.New("no line with " + strings.Join(want, ", ") + " in\n" + out)
		}
	}
	for _, call := range []struct {
		args string
		want func(string) error
	}{
		{"volumes -n " + s.Namespace, row(claim, one.Name, "bound")},
		{"volumes -A -o wide --unused", row(s.Namespace, claim, one.Name, pv.Name, "/var/hpvolumes/"+pv.Name)},
		{"volumes -A -o name --node " + one.Name, row("persistentvolume/" + pv.Name)},
		{"pools", row(one.Name, "█")},
		{"pools --node " + other.Name + " -o yaml", row("node: " + other.Name)},
		{"top", row(other.Name, "%")},
		{"node " + one.Name, row(s.Namespace, claim, "bound")},
		{"migrate status -n " + s.Namespace, row(claim, one.Name, "left")},
		{"orphans -o json", row(`"items"`)},
		{"trash -o json", row(`"items"`)},
		{"disks -o json", row(`"items"`)},
		{"__complete explain -n " + s.Namespace + " ", row(claim)},
		{"__complete node ", row(one.Name)},
	} {
		s.Eventually(call.args, func() error { // once the agent has seen the PV
			out, printed, code := hpp(s, strings.Split(call.args, " ")...)
			if code != 0 {
				t.Fatalf("%s: code %d: %s", call.args, code, printed)
			}
			if strings.Contains(out, "unknown: ") || strings.Contains(out, `"unknown"`) {
				return errors.New("unknown in\n" + out)
			}
			return call.want(out)
		})
	}
	s.Delete(created)
	s.Eventually("no volume", func() error {
		out, printed, _ := hpp(s, "volumes", "-n", s.Namespace)
		if strings.Contains(out, claim) || !strings.Contains(out+printed, "no volumes in namespace "+s.Namespace) {
			return errors.New(out + printed)
		}
		return nil
	})
}
