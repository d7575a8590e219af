package agents

import (
	"context"

	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Planned is the plan of one agent.
type Planned struct {
	Agent cluster.Agent
	recovery.Plan
	// Problem says why there is no plan; "" if there is one.
	Problem string
}

// Plans asks each node agent for the plan by which its volumes are recovered.
func (a Asker) Plans(ctx context.Context, of []cluster.Agent, o recovery.Options) []Planned {
	command := append([]string{"recover", "-o", "json"}, o.Args()...)
	var all []Planned
	for _, answer := range a.Ask(ctx, processes(of, cluster.NodeAgent), command...) {
		p := Planned{Agent: answer.Agent, Problem: answer.Problem}
		if p.Problem == "" {
			var err error
			if p.Plan, err = recovery.Decode(answer.Out); err != nil {
				p.Problem = err.Error()
			}
		}
		all = append(all, p)
	}
	return all
}
