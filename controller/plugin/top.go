package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) topCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Show the fullest pools and volumes, live",
		Long: "top shows the fullest pools and volumes, and how fast volumes grow. On a terminal it asks again every two\n" +
			"seconds until Ctrl-C; otherwise it prints once.\n\n" +
			"Permissions: list nodes, csistoragecapacities, and pods and events of all namespaces; create pods/exec in\n" +
			"the agents' namespace.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.top(c.Context()) },
	}
}

// Top is what top prints for programs.
type Top struct {
	Pools   List[NodePool]     `json:"pools"`
	Volumes List[fleet.Volume] `json:"volumes"`
}

// mostInTop bounds the pools and the volumes that top prints, each.
const mostInTop = 20

func (s *session) top(ctx context.Context) error {
	if err := s.connect("wide"); err != nil {
		return err
	}
	m := &meter{}
	if s.screen == nil || s.isData() {
		return s.printTop(ctx, m)
	}
	return s.live(ctx, func(ctx context.Context) error { return s.printTop(ctx, m) })
}

func (s *session) printTop(ctx context.Context, m *meter) error {
	f, nodes := s.fleet(ctx)
	top := Top{Pools: List[NodePool]{Items: []NodePool{}, Missing: missing(nodes, &f), Unknown: unknowns(&f)},
		Volumes: List[fleet.Volume]{Items: fleet.Volumes(&fleet.Stock{Facts: f}), Unknown: unknowns(&f)}}
	for _, n := range nodes {
		for _, p := range n.Pools {
			top.Pools.Items = append(top.Pools.Items, NodePool{n.Name, p})
		}
	}
	slices.SortStableFunc(top.Pools.Items, func(a, b NodePool) int { return cmp.Compare(full(&b), full(&a)) })
	slices.SortStableFunc(top.Volumes.Items, func(a, b fleet.Volume) int { return cmp.Compare(b.Full(), a.Full()) })
	top.Pools.Items = top.Pools.Items[:min(mostInTop, len(top.Pools.Items))]
	growth := m.growth(top.Volumes.Items, time.Now())
	top.Volumes.Items = top.Volumes.Items[:min(mostInTop, len(top.Volumes.Items))]
	if s.isData() {
		return view.Data(s.Out, s.output, top)
	}
	fmt.Fprintf(s.Out, "%s\n\n", summary(&f, nodes))
	if err := poolsOfTop(&top.Pools).Print(s.Out, s.style); err != nil {
		return err
	}
	t := &view.Table{Columns: view.Columns("CLAIM", "NODE", "POOL", "USED>", "QUOTA>", "USE", "?GROWTH>", "+VOLUME")}
	for i := range top.Volumes.Items {
		v := &top.Volumes.Items[i]
		if used, use := useOf(v); v.Used != nil {
			t.Add(v.Namespace+"/"+v.Claim, v.Node, v.Pool, used, contract.Size(*v.Quota), use, growth[v.Node+" "+v.Path], v.Name)
		}
	}
	if len(t.Rows) > 0 {
		fmt.Fprintln(s.Out)
	}
	if err := t.Print(s.Out, s.style); err != nil {
		return err
	}
	s.printProblems(nil, top.Pools.Unknown)
	return nil
}

// full returns which share of a pool is not available, from 0 to 1.
func full(p *NodePool) float64 {
	if p.Total <= 0 {
		return 0
	}
	return float64(p.Used()) / float64(p.Total)
}

func poolsOfTop(l *List[NodePool]) *view.Table {
	t := &view.Table{
		Columns: view.Columns("NODE", "POOL", "VOLUMES>", "ALLOCATED>", "AVAILABLE>", "SIZE>", "USED", "?WHY"),
	}
	for i := range l.Items {
		p := &l.Items[i]
		t.Add(p.Node, p.Name, p.Volumes, contract.Size(p.Allocated), contract.Size(p.Available), contract.Size(p.Total),
			view.Bar(p.Used(), p.Total))
	}
	for _, m := range l.Missing {
		addReason(t, m, "NODE", "POOL", "WHY")
	}
	return t
}

// meter compares what volumes use with what they used the last time. The zero value has no last
// time.
type meter struct {
	used map[string]int64 // by node and path
	at   time.Time
}

// growth returns the growth of the volumes since the last call, by node and path; none the first
// time.
func (m *meter) growth(all []fleet.Volume, now time.Time) map[string]string {
	was, seconds := m.used, int64(now.Sub(m.at)/time.Second)
	m.used, m.at = map[string]int64{}, now
	rates := map[string]string{}
	for _, v := range all {
		if v.Used == nil {
			continue
		}
		key := v.Node + " " + v.Path
		m.used[key] = *v.Used
		before, known := was[key]
		switch change := *v.Used - before; {
		case !known || seconds < 1:
		case change > 0:
			rates[key] = "+" + contract.Size(change/seconds) + "/s"
		case change < 0:
			rates[key] = "-" + contract.Size(-change/seconds) + "/s"
		}
	}
	return rates
}
