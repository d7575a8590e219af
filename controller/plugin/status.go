package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) statusCommand() *cobra.Command {
	verbose := false
	c := &cobra.Command{
		Use:   "status",
		Short: "Show nodes, agents and pools, and what is wrong with them",
		Long: "status shows each node with its agent and pools, and lists what is wrong.\n\n" +
			"Permissions: list nodes, csistoragecapacities, and pods and events of all namespaces. With create pods/exec in " +
			"the\n" +
			"agents' namespace it has the pools as they are now; without it, what nodes have published for the scheduler.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.status(c.Context(), verbose) },
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "also print images, paths, quotas and what is published by class")
	return c
}

// fleet reads the installation.
func (s *session) fleet(ctx context.Context) (fleet.Facts, []fleet.Node) {
	var f fleet.Facts
	cluster.Together(
		func() { f.Nodes = s.reader.Nodes(ctx) },
		func() { f.Capacities = s.reader.Capacities(ctx) },
		func() {
			f.Agents = s.reader.ExplainedAgents(ctx, nil)
			f.Pools, f.NoPools = s.pools(ctx, f.Agents.Items)
		},
	)
	return f, fleet.Of(&f)
}

// Status is what status prints for programs.
type Status struct {
	Nodes []fleet.Node `json:"nodes"`
	// Unknown are the reasons why parts are unknown.
	Unknown []string `json:"unknown,omitempty"`
}

func (s *session) status(ctx context.Context, verbose bool) error {
	if err := s.connect("wide"); err != nil {
		return err
	}
	f, nodes := s.fleet(ctx)
	status := Status{Nodes: nodes, Unknown: unknowns(&f)}
	if s.isData() {
		return view.Data(s.Out, s.output, status)
	}
	s.style.Wide = s.style.Wide || verbose
	fmt.Fprintln(s.Out, summary(&f, nodes))
	if len(nodes) > 0 {
		fmt.Fprintln(s.Out)
	}
	if err := statusTable(nodes, f.Agents.Known()).Print(s.Out, s.style); err != nil {
		return err
	}
	s.printProblems(nodes, status.Unknown)
	return nil
}

// summary returns the numbers of the installation in a line.
func summary(f *fleet.Facts, nodes []fleet.Node) string {
	ready, unmarked, pools, volumes := 0, 0, 0, 0
	var allocated, total int64
	counted := map[string]bool{} // filesystems, which several pools of a node may share
	for _, n := range nodes {
		for _, a := range n.Agents {
			switch {
			case a.Unmarked != "":
				unmarked++
			case a.Ready:
				ready++
			}
		}
		for _, p := range n.Pools {
			pools, volumes, allocated = pools+1, volumes+p.Volumes, allocated+p.Allocated
			if fs := p.Report.Pool.Filesystem; fs == "" || !counted[n.Name+" "+fs] {
				counted[n.Name+" "+fs] = true
				total += p.Total
			}
		}
	}
	var parts []string
	switch {
	case !f.Agents.Known():
		parts = append(parts, "agents unknown")
	case len(f.Agents.Items) == 0:
		return "no agent of hostpath-provisioner runs in this cluster: docs/install.md says how to install it"
	default:
		parts = append(parts, fmt.Sprintf("%d of %s ready", ready, events.Count(len(f.Agents.Items)-unmarked, "agent")))
	}
	if unmarked > 0 {
		parts = append(parts, events.Count(unmarked, "pod")+" unknown")
	}
	silent := 0
	for _, p := range f.Pools {
		if p.Problem != "" {
			silent++
		}
	}
	if f.NoPools != "" || !f.Agents.Known() || pools == 0 && silent > 0 {
		return strings.Join(append(parts, "pools unknown"), ", ")
	}
	parts = append(parts, events.Count(pools, "pool"), events.Count(volumes, "volume"),
		fmt.Sprintf("%s of %s allocated", contract.Size(allocated), contract.Size(total)))
	if silent > 0 {
		parts = append(parts, "not all pools of "+events.Count(silent, "agent")+" known")
	}
	return strings.Join(parts, ", ")
}

// statusTable returns the nodes as a table. Where agents are not known, no node is without one.
func statusTable(nodes []fleet.Node, agentsKnown bool) *view.Table {
	t := &view.Table{Columns: view.Columns("NODE", "READY", "AGENT", "+IMAGE", "POOL", "+PATH", "VOLUMES>", "ALLOCATED>",
		"AVAILABLE>", "SIZE>", "USED", "+QUOTAS", "+PUBLISHED")}
	for _, n := range nodes {
		state, image := agentState(n)
		if len(n.Agents) == 0 && !agentsKnown {
			state = "unknown"
		}
		if len(n.Pools) == 0 {
			t.Add(n.Name, n.Ready, state, image, "", "", "", "", "", "", "", "", published(n))
		}
		for _, p := range n.Pools {
			t.Add(n.Name, n.Ready, state, image, p.Name, p.Path, p.Volumes, contract.Size(p.Allocated),
				contract.Size(p.Available), contract.Size(p.Total), view.Bar(p.Used(), p.Total), quotasOf(&p), published(n))
		}
	}
	return t
}

// agentState describes the agents of a node in a word, with the image of one.
func agentState(n fleet.Node) (state, image string) {
	state = "none"
	for _, a := range n.Agents {
		switch {
		case a.Unmarked != "":
			return "unknown", a.Image
		case !a.Ready:
			return "not ready", a.Image
		default:
			state, image = "ready", a.Image
		}
	}
	return state, image
}

func published(n fleet.Node) string {
	var all []string
	for _, class := range slices.Sorted(maps.Keys(n.Published)) {
		all = append(all, class+"="+contract.Size(n.Published[class]))
	}
	return strings.Join(all, " ")
}

// printProblems lists what is wrong, and what is unknown.
func (s *session) printProblems(nodes []fleet.Node, unknown []string) {
	first := true
	line := func(lead, mark string, p view.Paint, text string) {
		if first {
			fmt.Fprintln(s.Out)
		}
		first = false
		wrapped := s.style.Wrapped("  "+mark+" "+lead, text)
		fmt.Fprint(s.Out, strings.Replace(wrapped, mark, s.style.Paint(p, mark), 1))
	}
	for _, n := range nodes {
		for _, p := range n.Problems {
			line(n.Name+": ", "!", view.Yellow, p)
		}
	}
	for _, reason := range unknown {
		line("unknown: ", "?", view.Gray, reason)
	}
}
