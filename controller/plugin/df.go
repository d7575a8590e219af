package plugin

import (
	"context"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) dfCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "df",
		Short: "Show the space of each pool, as df shows that of disks",
		Long: "df shows what the filesystem of each pool has, what is used and free, what is allocated to volumes, and " +
			"what is\n" +
			"available to new ones.\n\n" +
			"Permissions: list nodes, csistoragecapacities, and pods and events of all namespaces; create pods/exec in the\n" +
			"agents' namespace.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.df(c.Context()) },
	}
}

func (s *session) df(ctx context.Context) error {
	if err := s.connect("wide"); err != nil {
		return err
	}
	f, nodes := s.fleet(ctx)
	if s.isData() {
		return view.Data(s.Out, s.output, List[fleet.Node]{Items: nodes, Missing: missing(nodes, &f), Unknown: unknowns(&f)})
	}
	t := &view.Table{Columns: view.Columns("NODE", "POOL", "SIZE>", "USED>", "FREE>", "ALLOCATED>", "AVAILABLE>", "USE",
		"+PATH")}
	for _, n := range nodes {
		for _, p := range n.Pools {
			t.Add(n.Name, p.Name, contract.Size(p.Total), contract.Size(p.Used()), contract.Size(p.Free),
				contract.Size(p.Allocated), contract.Size(p.Available), view.Bar(p.Used(), p.Total), p.Path)
		}
	}
	if err := t.Print(s.Out, s.style); err != nil {
		return err
	}
	s.printProblems(onlyUnreported(nodes), unknowns(&f))
	return nil
}

// onlyUnreported returns the nodes whose pools are not in the table, with what is wrong there.
func onlyUnreported(nodes []fleet.Node) (all []fleet.Node) {
	for _, n := range nodes {
		if len(n.Pools) == 0 {
			all = append(all, n)
		}
	}
	return all
}

// unknowns returns the reasons why parts of the installation are unknown.
func unknowns(f *fleet.Facts) (all []string) {
	for _, reason := range []string{f.Nodes.Unknown, f.Agents.Unknown, f.Capacities.Unknown, f.NoPools} {
		if reason != "" {
			all = append(all, reason)
		}
	}
	return all
}
