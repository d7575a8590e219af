package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Kept is a deleted volume that a pool keeps, as `trash -o json` of its agent prints it.
type Kept struct {
	Pool      string    `json:"pool"` // the path
	PoolUUID  string    `json:"poolUUID"`
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	PV        string    `json:"pv,omitempty"`
	Namespace string    `json:"namespace,omitempty"` // of the former claim
	Claim     string    `json:"claim,omitempty"`
	Bytes     int64     `json:"bytes,omitempty"`
	Created   time.Time `json:"created"`
	Deleted   time.Time `json:"deleted,omitzero"`
	// Until is when it may go, if agents of the node run until then.
	Until time.Time `json:"until,omitzero"`
	// NotOffered is why it cannot be undeleted; "" if the record does not rule that out.
	NotOffered string `json:"notOffered,omitempty"`
}

// Kept asks each node agent for the deleted volumes that its pools keep.
func (a Asker) Kept(ctx context.Context, of []cluster.Agent) []Listed[Kept] {
	all := make([]Listed[Kept], 0, len(of))
	for _, answer := range a.Ask(ctx, processes(of, cluster.NodeAgent), "trash", "-o", "json") {
		l := Listed[Kept]{Agent: answer.Agent, Problem: answer.Problem}
		var printed struct {
			Kept []Kept `json:"kept"`
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
	answer := a.Ask(ctx, []cluster.Agent{of}, withOptions(o, "trash", "plan", id)...)[0]
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
	answer := a.Ask(ctx, []cluster.Agent{of}, withOptions(o, "trash", "undelete", id)...)[0]
	if answer.Problem != "" {
		return errors.New(answer.Problem)
	}
	return nil
}

// withOptions adds what a person says about records to a command.
func withOptions(o recovery.Options, command ...string) []string {
	if o.FromCluster != "" {
		command = append(command, "--from-cluster="+o.FromCluster)
	}
	if o.ToNamespace != "" {
		command = append(command, "--to-namespace="+o.ToNamespace)
	}
	return command
}
