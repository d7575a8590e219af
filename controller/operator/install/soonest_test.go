package install

import (
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// The shortest time counts. A step that waits for nothing has none.
func TestSoonest(t *testing.T) {
	moved := plan{Layout: layout.Layout{Record: &poolrecord.Record{Content: poolrecord.Content{Offer: poolrecord.Offer{
		Pools: []poolrecord.Pool{{Name: "a", Path: "/a"}}}}}}}
	for name, row := range map[string]struct {
		l    plan
		a    agents
		want time.Duration
	}{
		"nothing":                    {},
		"a volume":                   {l: plan{Layout: layout.Layout{Retained: []string{"pool a"}}}, want: checkInterval},
		"an agent offers a pool":     {l: moved, want: checkInterval},
		"a node without an agent":    {l: plan{without: []string{"n"}}, want: checkInterval},
		"former agents":              {a: agents{waiting: "pods"}, want: checkInterval},
		"a rollout":                  {a: agents{State: agentstatus.State{Rolling: true}}, want: checkInterval},
		"a count":                    {a: agents{State: agentstatus.State{Counting: true}}, want: checkInterval},
		"an agent that starts":       {a: agents{State: agentstatus.State{Left: time.Hour}}, want: time.Hour},
		"the last second of a start": {a: agents{State: agentstatus.State{Rolling: true, Left: 1}}, want: 1},
		"a mount":                    {l: plan{Layout: layout.Layout{Retained: []string{"a"}}, claims: claimpools.Result{Again: 2}}, want: 2},
	} {
		if got := soonest(row.l.again(), row.l.claims.Again, row.a.again()); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
