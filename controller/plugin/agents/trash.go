package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Kept asks each node agent for the deleted volumes that its pools keep.
func (a Asker) Kept(ctx context.Context, of []cluster.Agent) []Listed[recovery.Kept] {
	all := make([]Listed[recovery.Kept], 0, len(of))
	for _, answer := range a.Ask(ctx, processes(of, cluster.NodeAgent), "trash", "-o", "json") {
		l := Listed[recovery.Kept]{Agent: answer.Agent, Problem: answer.Problem}
		var printed struct {
			Kept []recovery.Kept `json:"kept"`
		}
		if len(answer.Out) > 0 || l.Problem == "" {
			if err := json.Unmarshal(answer.Out, &printed); err != nil && l.Problem == "" {
				l.Problem = fmt.Sprintf("the output of trash is not its JSON: %v", err)
			}
		}
		l.Items = printed.Kept
		all = append(all, l)
	}
	return all
}

// KeptPlan asks an agent what becomes of a kept volume that is undeleted.
func (a Asker) KeptPlan(ctx context.Context, of cluster.Agent, id string, o recovery.Options) Planned {
	answer := a.Ask(ctx, []cluster.Agent{of}, append([]string{"trash", "plan", id}, o.Args()...)...)[0]
	p := Planned{Agent: of, Problem: answer.Problem}
	if p.Problem == "" {
		var err error
		if p.Plan, err = recovery.Decode(answer.Out); err != nil {
			p.Problem = err.Error()
		}
	}
	return p
}

// Undelete has an agent bring a kept volume back to its place.
func (a Asker) Undelete(ctx context.Context, of cluster.Agent, id string, o recovery.Options) error {
	o.ToNamespace = "" // which is the plan's
	answer := a.Ask(ctx, []cluster.Agent{of}, append([]string{"trash", "undelete", id}, o.Args()...)...)[0]
	if answer.Problem != "" {
		return errors.New(answer.Problem)
	}
	return nil
}
