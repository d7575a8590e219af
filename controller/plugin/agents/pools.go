package agents

import (
	"bytes"
	"context"

	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// Pools are the pools of one agent.
type Pools struct {
	Agent   cluster.Agent    `json:"agent"`
	Reports []inspect.Report `json:"pools,omitempty"`
	// Problem says why Reports is not complete; "" if it is.
	Problem string `json:"problem,omitempty"`
}

// AskPools asks agents for their pools. why says why it does not; "" if it does.
type AskPools func(ctx context.Context, of []cluster.Agent) (pools []Pools, why string)

// Pools asks each node agent for its pools. Agents of raw disks have none.
func (a Asker) Pools(ctx context.Context, of []cluster.Agent) []Pools {
	of = processes(of, cluster.NodeAgent)
	all := make([]Pools, 0, len(of))
	for _, answer := range a.Ask(ctx, of, "inspect", "-o", "json") {
		p := Pools{Agent: answer.Agent, Problem: answer.Problem}
		reports, err := inspect.Decode(bytes.NewReader(answer.Out))
		if p.Reports = reports; err != nil && p.Problem == "" {
			p.Problem = err.Error()
		}
		all = append(all, p)
	}
	return all
}
