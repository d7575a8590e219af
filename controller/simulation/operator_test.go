package simulation_test

import (
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/simulation"
)

// An installation by the operator works, and what is found there and not mended is found again: the
// rule is that of the violation, "" for none. Steps that do not fit are left out of a run's words.
func TestInstalled(t *testing.T) {
	const install, settled = "install a=/a b=/b+claim", "wait 3m"
	c := &child{t: t}
	defer c.end()
	for _, row := range []struct {
		rule  string
		words []string
	}{
		{"", []string{install, settled, "claim c1 node-01 a-keep 1Mi", "claim c2 node-02 b-keep 1Mi", "wait 1m", "grow claim c1 2Mi",
			"grow claim c2 2Mi", "operator version v1", "wait 5m", "operator kill 1", "operator kill 2", "wait 1m", "machine off node-02",
			"wait 2m", "machine on node-02", "wait 5m", "delete claim c1", "delete claim c2", "wait 1m", "resource delete", "wait 1m",
			"resource a=/a", settled, "claim c3 node-01 a-keep 1Mi", "wait 1m", "grow claim c3 2Mi"}},
		{"", []string{install, settled, "resource a=/a b=/z+claim", "resource a=/a b=/z+claim c=/b+claim", "wait 2m",
			"claim c1 node-01 c-keep 1Mi", "wait 30m"}},
		{"", []string{install, settled, "claim c1 node-01 b-keep 1Mi", "wait 1m", "delete disk node-01/b", "wait 1m",
			"operator version v1", "wait 10m"}},
		{"", []string{install, settled, "setting PV_RECLAIM_POLICY Retain", settled,
			"setting PV_RECLAIM_POLICY retain", settled, "claim c1 node-01 a-keep 1Mi", "wait 1m"}},
		{"", []string{install, settled, "claim c1 node-01 a-release 1Mi", "wait 1m", "setting nodeGoneGrace 24 h",
			"node delete node-01", "wait 30m"}},
	} {
		r := c.run(simulation.Run{Seed: 1, Words: row.words})
		if len(r.Violations) > 0 != (row.rule != "") {
			t.Errorf("%q: %+v, want %q", row.words, r.Violations, row.rule)
		}
		if row.rule != "" && len(r.Violations) > 0 && r.Violations[0].Rule != row.rule {
			t.Errorf("%q: %+v, want %s", row.words, r.Violations[0], row.rule)
		}
		if row.rule == "" && !slices.Equal(r.Words, row.words) {
			t.Errorf("these steps alone were possible: %q", r.Words)
		}
	}
}
