package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Orphan is a volume whose PV is gone, as `orphans -o json` of its agent prints it.
type Orphan struct {
	Pool          string    `json:"pool"` // the path
	PoolUUID      string    `json:"poolUUID"`
	Name          string    `json:"name"`
	Bytes         int64     `json:"bytes"`
	PV            string    `json:"pv,omitempty"`
	Claim         string    `json:"claim,omitempty"` // namespace/name
	ReclaimPolicy string    `json:"reclaimPolicy,omitempty"`
	Since         time.Time `json:"since"`
	Why           string    `json:"why"`
	// Kept is why the agent would not remove it; "" if the API server decides.
	Kept string `json:"kept,omitempty"`
}

// Device is a disk of a node, as `disks inspect -o json` of its agent prints it.
type Device struct {
	Device string   `json:"device"`
	Paths  []string `json:"paths,omitempty"` // further paths to the same device
	ID     string   `json:"id,omitempty"`
	Bytes  int64    `json:"bytes"`
	State  string   `json:"state"`
	Why    string   `json:"why,omitempty"`
	PV     string   `json:"pv,omitempty"`
	// Retry is when the agent tries the device again, the zero time if it does not.
	Retry time.Time `json:"retry,omitzero"`
	// Wiped and Verified are the progress of the wipe in bytes, each of WipeBytes.
	Wiped     int64 `json:"wiped,omitempty"`
	Verified  int64 `json:"verified,omitempty"`
	WipeBytes int64 `json:"wipeBytes,omitempty"`
	// Confirm is the annotation that confirms that the device is the PV's; "" if that is clear.
	Confirm string `json:"confirm,omitempty"`
}

// Listed are the items that one agent printed.
type Listed[T any] struct {
	Agent cluster.Agent `json:"agent"`
	Items []T           `json:"items,omitempty"`
	// Problem says why Items is not complete; "" if it is.
	Problem string `json:"problem,omitempty"`
}

// Orphans asks each node agent for its orphans.
func (a Asker) Orphans(ctx context.Context, of []cluster.Agent) []Listed[Orphan] {
	return listed[Orphan](ctx, a, processes(of, cluster.NodeAgent), "orphans", "-o", "json")
}

// Devices asks each agent of raw disks for its devices.
func (a Asker) Devices(ctx context.Context, of []cluster.Agent) []Listed[Device] {
	return listed[Device](ctx, a, processes(of, cluster.DiskAgent), "disks", "inspect", "-o", "json")
}

// listed runs a command that prints a JSON array.
func listed[T any](ctx context.Context, a Asker, of []cluster.Agent, command ...string) []Listed[T] {
	all := make([]Listed[T], 0, len(of))
	for _, answer := range a.Ask(ctx, of, command...) {
		l := Listed[T]{Agent: answer.Agent, Problem: answer.Problem}
		if len(answer.Out) > 0 || l.Problem == "" {
			if err := json.Unmarshal(answer.Out, &l.Items); err != nil && l.Problem == "" {
				l.Problem = fmt.Sprintf("the output of %s is not the JSON of a list: %v", command[0], err)
			}
		}
		all = append(all, l)
	}
	return all
}

// processes returns the agents that are one of the processes.
func processes(of []cluster.Agent, process string) []cluster.Agent {
	return slices.DeleteFunc(slices.Clone(of), func(a cluster.Agent) bool { return a.Process != process })
}
