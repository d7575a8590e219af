package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) poolsCommand() *cobra.Command {
	node := ""
	c := &cobra.Command{
		Use:     "pools [POOL]",
		Aliases: []string{"pool"},
		Short:   "List the pools of all nodes, or those of a name",
		Long: "pools lists the pools of all nodes, or those of a name, with their space, quotas and volumes.\n\n" +
			"Permissions: list nodes, csistoragecapacities, and pods and events of all namespaces; create pods/exec in\n" +
			"the agents' namespace, without which pools are unknown.",
		Example: "  kubectl hpp pools\n  kubectl hpp pools fast -o wide\n  kubectl hpp pools --node node-01 -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return s.listPools(c.Context(), slices.Concat(args, []string{""})[0], node)
		},
	}
	c.Flags().StringVar(&node, "node", "", "list the pools of this node only")
	return c
}

// NodePool is a pool with its node.
type NodePool struct {
	Node string `json:"node"`
	fleet.Pool
}

func (s *session) listPools(ctx context.Context, name, node string) error {
	if err := s.connect("wide", "name"); err != nil {
		return err
	}
	f, nodes := s.fleet(ctx)
	if node != "" {
		nodes = slices.DeleteFunc(nodes, func(n fleet.Node) bool { return n.Name != node })
		if len(nodes) == 0 && f.Nodes.Known() {
			return noNode(node, f.Nodes)
		}
	}
	l := List[NodePool]{Missing: missing(nodes, &f), Unknown: unknowns(&f)}
	p := printed{
		none: "there are no pools",
		table: &view.Table{Columns: view.Columns("NODE", "POOL", "VOLUMES>", "ALLOCATED>",
			"AVAILABLE>", "SIZE>", "USED", "QUOTAS", "+TRASH>", "+RESERVE>", "+PATH", "+ID", "?WHY")},
	}
	for _, n := range nodes {
		for _, pool := range n.Pools {
			if name != "" && pool.Name != name && pool.Path != name {
				continue
			}
			l.Items = append(l.Items, NodePool{n.Name, pool})
			p.names = append(p.names, n.Name+"/"+pool.Name)
			p.table.Add(n.Name, pool.Name, pool.Volumes, contract.Size(pool.Allocated), contract.Size(pool.Available),
				contract.Size(pool.Total), view.Bar(pool.Used(), pool.Total), quotasOf(&pool), pool.Trash,
				contract.Size(pool.Report.Pool.Reserve), pool.Path, pool.Report.Pool.ID, "")
		}
	}
	for _, m := range l.Missing {
		addReason(p.table, m, "NODE", "POOL", "WHY")
	}
	p.nodes = problemsOf(nodes, name)
	if name != "" && len(l.Items) == 0 && len(l.Missing) == 0 && len(l.Unknown) == 0 {
		return fmt.Errorf("no node has a pool %s: kubectl hpp pools lists them", name)
	}
	return print(s, l, p)
}

// problemsOf returns the nodes that have pools, with the problems of the pool of that name, or of all
// if it is "".
func problemsOf(nodes []fleet.Node, pool string) (all []fleet.Node) {
	for _, n := range nodes {
		if len(n.Pools) == 0 {
			continue
		}
		n.Problems = slices.DeleteFunc(slices.Clone(n.Problems), func(problem string) bool {
			return pool != "" && !strings.HasPrefix(problem, "pool "+pool+" ") && !strings.HasPrefix(problem, "pool "+pool+":")
		})
		all = append(all, n)
	}
	return all
}

func quotasOf(p *fleet.Pool) string {
	if p.NoQuotas != "" {
		return "none"
	}
	return p.Quotas
}
