package plugin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

func (s *session) trashCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "trash",
		Short: "List deleted volumes: those that are kept, and those that are being removed",
		Long: "trash lists the volumes that were deleted: those that their pools keep, which kubectl hpp undelete NODE/ID\n" +
			"brings back, and for how long they do; and those whose files the agents have not removed yet, and why not. An\n" +
			"administrator removes kept ones at once on their node: see docs/undelete.md.\n\n" +
			"Permissions: list nodes, csistoragecapacities, and pods and events of all namespaces; create pods/exec in\n" +
			"the agents' namespace.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.trash(c.Context()) },
	}
}

// Trash is an entry of the trash of a pool.
type Trash struct {
	Node string `json:"node"`
	Pool string `json:"pool"`
	Path string `json:"path"`
	inspect.TrashEntry
	// Kept is set for a deleted volume that its pool keeps, of a claim that was named Claim.
	Kept  bool   `json:"kept,omitempty"`
	Claim string `json:"claim,omitempty"` // namespace/name
	PV    string `json:"pv,omitempty"`
	// Until is when the pool may remove a kept volume, zero if the agent did not answer.
	Until time.Time `json:"until,omitzero"`
}

// trashOf returns the deleted volumes of a pool, those that it keeps first.
func trashOf(r *inspect.Report) (all []Trash) {
	for _, k := range r.Kept {
		all = append(all, Trash{Kept: true, Claim: k.Owner.Namespace + "/" + k.Owner.Name, PV: k.PV,
			TrashEntry: inspect.TrashEntry{ID: k.ID, Name: k.Name, Bytes: k.Bytes, Since: k.Since}})
	}
	for _, e := range r.Trash {
		all = append(all, Trash{TrashEntry: e})
	}
	return all
}

func (s *session) trash(ctx context.Context) error {
	if err := s.connect("wide", "name"); err != nil {
		return err
	}
	f, nodes := s.fleet(ctx)
	known := s.keptOn(ctx, f.Pools)
	l := List[Trash]{Unknown: unknowns(&f), Missing: missing(nodes, &f)}
	p := printed{
		none: "the trash of all pools is empty",
		table: &view.Table{Columns: view.Columns("NODE", "POOL", "VOLUME", "SIZE>", "SINCE>", "LEFT>", "STATE", "CLAIM",
			"ID", "+PV", "+PATH", "?WHY")},
	}
	for _, n := range nodes {
		for _, pool := range n.Pools {
			for _, e := range trashOf(pool.Report) {
				e.Node, e.Pool, e.Path = n.Name, pool.Name, pool.Path
				if k := known[n.Name+"/"+e.ID]; e.Kept {
					e.Until = k.Until
					if k.NotOffered != "" {
						e.Stuck = "undelete refuses it: " + k.NotOffered
					}
				}
				l.Items = append(l.Items, e)
				p.names = append(p.names, n.Name+"/"+e.ID)
				size, state := "unknown", "going"
				if e.Name != "" {
					size = contract.Size(e.Bytes)
				}
				if e.Kept {
					state = "kept"
				}
				p.table.Add(n.Name, pool.Name, cmp.Or(e.Name, e.ID), size, s.ago(e.Since), s.left(e.Until), state, e.Claim, e.ID, e.PV, pool.Path,
					e.Stuck)
			}
		}
	}
	for _, m := range l.Missing {
		addReason(p.table, m, "NODE", "VOLUME", "WHY")
	}
	return print(s, l, p)
}

// keptOn asks the agents of pools that keep deleted volumes for these, and returns them by node and ID. It is
// silent about agents that do not answer: undelete asks them again.
func (s *session) keptOn(ctx context.Context, pools []agents.Pools) map[string]recovery.Kept {
	var of []cluster.Agent
	for _, p := range pools {
		if slices.ContainsFunc(p.Reports, func(r inspect.Report) bool { return len(r.Kept) > 0 }) {
			of = append(of, p.Agent)
		}
	}
	known := map[string]recovery.Kept{}
	asker, why := s.asker(ctx, of)
	if why != "" {
		return known
	}
	for _, l := range asker.Kept(ctx, of) {
		for _, k := range l.Items {
			known[l.Agent.Node+"/"+k.ID] = k
		}
	}
	return known
}
