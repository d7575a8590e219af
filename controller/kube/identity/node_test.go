package identity

import (
	"strings"
	"testing"
)

func TestNodeGone(t *testing.T) {
	absent := NodeFacts{PV: "pvc-1", Home: Home{Node: "node-01", NodeUID: "old", Pool: "p1", Cluster: "c"}, ThisCluster: "c", Waited: true}
	again := absent
	again.Exists, again.UID, again.Agent, again.Open = true, "new", true, true
	same := again
	same.UID = "old"
	with := func(f NodeFacts, change func(*NodeFacts)) NodeFacts {
		change(&f)
		return f
	}
	const unmarked, rebuilt = "no mark of this cluster", "kubectl annotate --overwrite node node-01"
	for name, row := range map[string]struct {
		facts NodeFacts
		loss  Loss
		want  Answer
		why   string // a part of the reason, "" for none
	}{
		"absent":                           {absent, NodeAbsent, Ours, ""},
		"absent, an agent is ready":        {with(absent, func(f *NodeFacts) { f.Agent = true }), NotLost, Foreign, "is ready"},
		"absent, the grace runs":           {with(absent, func(f *NodeFacts) { f.Waited = false }), NotLost, Unclear, ""},
		"renamed, with the same hostname":  {with(absent, func(f *NodeFacts) { f.HostnameAt = "node-02" }), NotLost, Foreign, "node-02 has the hostname"},
		"the pool is on another node":      {with(absent, func(f *NodeFacts) { f.PoolAt = "node-02" }), NotLost, Unclear, "node node-02 has pool p1"},
		"absent, of another cluster":       {with(absent, func(f *NodeFacts) { f.Cluster = "b" }), NotLost, Unclear, unmarked},
		"absent, from an older version":    {with(absent, func(f *NodeFacts) { f.Cluster = "" }), NotLost, Unclear, unmarked},
		"absent, the cluster is unknown":   {with(absent, func(f *NodeFacts) { f.Cluster, f.ThisCluster = "", "" }), NotLost, Unclear, "kube-system"},
		"exists":                           {same, NotLost, Foreign, "exists"},
		"exists, agent not ready":          {with(same, func(f *NodeFacts) { f.Agent = false }), NotLost, Foreign, "exists"},
		"exists, the PV has no Node's UID": {with(again, func(f *NodeFacts) { f.NodeUID = "" }), NotLost, Foreign, "exists"},
		"made again, the grace runs":       {with(again, func(f *NodeFacts) { f.Waited = false }), NotLost, Unclear, ""},
		"made again, not bound yet":        {again, NotLost, Unclear, rebuilt},
		"made again, not ready":            {with(again, func(f *NodeFacts) { f.Agent = false }), NotLost, Unclear, rebuilt},
		"made again, an empty disk":        {with(again, func(f *NodeFacts) { f.Missing = "pool/new" }), NotLost, Unclear, rebuilt},
		"made again, the volume missing":   {with(again, func(f *NodeFacts) { f.Missing = "volume/new" }), VolumeMissing, Ours, ""},
		"an earlier Node missed it":        {with(again, func(f *NodeFacts) { f.Missing = "volume/older" }), NotLost, Unclear, rebuilt},
		"missing, agent not ready":         {with(again, func(f *NodeFacts) { f.Missing, f.Agent = "volume/new", false }), NotLost, Unclear, rebuilt},
		"missing, the pool is not open":    {with(again, func(f *NodeFacts) { f.Missing, f.Open = "volume/new", false }), NotLost, Unclear, rebuilt},
		"given up":                         {with(again, func(f *NodeFacts) { f.Missing, f.GiveUp, f.Agent = "pool/new", "new", false }), GivenUp, Ours, ""},
		"given up, on a claim":             {with(again, func(f *NodeFacts) { f.Missing, f.GiveUp, f.OnClaim = "pool/new", "new", true }), NotLost, Unclear, "whose disk is attached by itself"},
		"given up by its pool, on a claim": {with(again, func(f *NodeFacts) { f.Missing, f.GiveUp, f.OnClaim = "pool/new", "p1", true }), GivenUp, Ours, ""},
		"given up, the grace runs":         {with(again, func(f *NodeFacts) { f.Missing, f.GiveUp, f.Waited = "pool/new", "new", false }), NotLost, Unclear, ""},
		"given up, the pool is open":       {with(again, func(f *NodeFacts) { f.GiveUp = "new" }), NotLost, Unclear, rebuilt},
		"given up for an earlier Node":     {with(again, func(f *NodeFacts) { f.Missing, f.GiveUp = "pool/new", "old" }), NotLost, Unclear, rebuilt},
		"given up, reported to an earlier": {with(again, func(f *NodeFacts) { f.Missing, f.GiveUp = "pool/old", "new" }), NotLost, Unclear, rebuilt},
		"given up, of another cluster":     {with(again, func(f *NodeFacts) { f.Missing, f.GiveUp, f.Cluster = "pool/new", "new", "b" }), NotLost, Unclear, unmarked},
		"the UID of its own Node":          {with(same, func(f *NodeFacts) { f.Missing, f.GiveUp = "pool/old", "old" }), NotLost, Foreign, "exists"},
		"a disk replaced":                  {with(same, func(f *NodeFacts) { f.Missing, f.GiveUp = "pool/old", "p2, p1" }), GivenUp, Ours, ""},
		"another disk replaced":            {with(same, func(f *NodeFacts) { f.Missing, f.GiveUp = "pool/old", "p2" }), NotLost, Foreign, "exists"},
		"a disk replaced that came back":   {with(same, func(f *NodeFacts) { f.GiveUp = "p1" }), NotLost, Foreign, "exists"},
	} {
		loss, found := NodeGone(row.facts)
		if loss != row.loss || found.Answer != row.want {
			t.Errorf("%s: loss %d, %s, want %d, %s", name, loss, found.Answer, row.loss, row.want)
		}
		if (found.Why == "") != (row.why == "") || !strings.Contains(found.Why, row.why) {
			t.Errorf("%s: %q, want %q", name, found.Why, row.why)
		}
	}
}
