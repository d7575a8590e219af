package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) nodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "node NODE",
		Short: "Show everything about one node: agents, pools, volumes, events",
		Long: "node shows one node: whether it is ready, its taints, agents, pools, volumes, and the events about it.\n\n" +
			"Permissions: list nodes, persistentvolumes, csistoragecapacities, events of the namespace default, and\n" +
			"persistentvolumeclaims and pods of all namespaces. Pools, use and quotas need create pods/exec in the\n" +
			"agents' namespace.",
		Example: "  kubectl hpp node node-01\n  kubectl hpp node node-01 -o yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return s.node(c.Context(), strings.TrimPrefix(args[0], "node/"))
		},
	}
}

// NodeDetail is what node prints for programs.
type NodeDetail struct {
	fleet.Node
	Taints        []string       `json:"taints,omitempty"`
	Unschedulable bool           `json:"unschedulable,omitempty"`
	Volumes       []fleet.Volume `json:"volumes,omitempty"`
	Events        []NodeEvent    `json:"events,omitempty"`
	Unknown       []string       `json:"unknown,omitempty"`
}

// NodeEvent is an event of this project about a node.
type NodeEvent struct {
	Age     string `json:"age"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (s *session) node(ctx context.Context, name string) error {
	if err := s.connect("wide", "name"); err != nil {
		return err
	}
	detail, stock := s.readNode(ctx, name)
	if detail == nil {
		return noNode(name, stock.Nodes)
	}
	switch {
	case s.isData():
		return view.Data(s.Out, s.output, detail)
	case s.output == "name":
		_, err := fmt.Fprintln(s.Out, "node/"+view.Printable(name))
		return err
	}
	return s.printNode(detail)
}

// readNode reads what is known about a node. It returns nil if there is no such node, and no agent
// or PV names it.
func (s *session) readNode(ctx context.Context, name string) (*NodeDetail, *fleet.Stock) {
	stock := &fleet.Stock{}
	var recorded cluster.List[corev1.Event]
	cluster.Together(
		func() {
			stock.Nodes = s.reader.Nodes(ctx)
			if n := stock.Nodes.Find(func(n *corev1.Node) bool { return n.Name == name }); n != nil {
				recorded = s.reader.EventsOf(ctx, "Node", "", name, n.UID)
			}
		},
		func() { stock.Capacities = s.reader.Capacities(ctx) },
		func() { stock.PVs = s.reader.PVs(ctx) },
		func() { stock.Claims = s.reader.Claims(ctx, "") },
		func() { stock.Pods = s.reader.Pods(ctx, "", "") },
		func() {
			stock.Agents = s.reader.ExplainedAgents(ctx, func(a cluster.Agent) bool { return a.Node == name })
			stock.Pools, stock.NoPools = s.pools(ctx, stock.Agents.Items)
		},
	)
	d := &NodeDetail{Node: fleet.Node{Name: name, Ready: "gone"}, Unknown: stockUnknowns(stock)}
	if !stock.Nodes.Known() {
		d.Ready = "unknown"
	}
	for _, v := range fleet.Volumes(stock) {
		if v.Node == name {
			d.Volumes = append(d.Volumes, v)
		}
	}
	all := fleet.Of(&stock.Facts)
	if i := slices.IndexFunc(all, func(n fleet.Node) bool { return n.Name == name }); i >= 0 {
		d.Node = all[i]
	} else if stock.Nodes.Known() && len(d.Volumes) == 0 {
		return nil, stock
	}
	if n := stock.Nodes.Find(func(n *corev1.Node) bool { return n.Name == name }); n != nil {
		d.Unschedulable = n.Spec.Unschedulable
		for i := range n.Spec.Taints {
			d.Taints = append(d.Taints, n.Spec.Taints[i].ToString())
		}
	}
	if recorded.Unknown != "" {
		d.Unknown = append(d.Unknown, recorded.Unknown)
	}
	d.Events = s.nodeEvents(recorded.Items)
	return d, stock
}

// nodeEvents returns the events that this project records, the newest first.
func (s *session) nodeEvents(recorded []corev1.Event) (all []NodeEvent) {
	reasons := map[string]bool{}
	for _, r := range events.Reasons() {
		reasons[r.Name] = true
	}
	for i := range recorded {
		if e := &recorded[i]; reasons[e.Reason] {
			all = append(all, NodeEvent{Age: s.ago(cluster.Last(e)), Type: e.Type, Reason: e.Reason, Message: e.Message})
		}
	}
	return all
}

func (s *session) printNode(d *NodeDetail) error {
	line := "node " + d.Name
	switch d.Ready {
	case "yes":
		line += ": ready"
	case "no":
		line += ": not ready"
	case "gone":
		line += ": does not exist; agents or PVs name it"
	default:
		line += ": unknown"
	}
	if d.Unschedulable {
		line += ", cordoned"
	}
	if len(d.Taints) > 0 {
		line += ", taints " + strings.Join(d.Taints, " ")
	}
	fmt.Fprintln(s.Out, view.Printable(line))
	agents := &view.Table{Columns: view.Columns("AGENT", "NAMESPACE", "PROCESS", "READY", "SERVES", "+IMAGE", "?WHY")}
	for _, a := range d.Agents {
		ready := "no"
		if a.Ready {
			ready = "yes"
		}
		agents.Add(a.Pod, a.Namespace, a.Process, ready, strings.Join(a.Provisioners, " "), a.Image, a.Why)
	}
	pools := &view.Table{
		Columns: view.Columns("POOL", "PATH", "VOLUMES>", "ALLOCATED>", "AVAILABLE>", "SIZE>", "USED", "QUOTAS",
			"+ID"),
	}
	for i := range d.Pools {
		p := &d.Pools[i]
		pools.Add(p.Name, p.Path, p.Volumes, contract.Size(p.Allocated), contract.Size(p.Available), contract.Size(p.Total),
			view.Bar(p.Used(), p.Total), quotasOf(p), p.Report.Pool.ID)
	}
	recorded := &view.Table{Columns: view.Columns("AGE>", "TYPE", "REASON", "MESSAGE")}
	for _, e := range d.Events {
		recorded.Add(e.Age, e.Type, e.Reason, e.Message)
	}
	for _, t := range []*view.Table{agents, pools, volumeTable(d.Volumes, true), recorded} {
		if len(t.Rows) == 0 {
			continue
		}
		fmt.Fprintln(s.Out)
		if err := t.Print(s.Out, s.style); err != nil {
			return err
		}
	}
	s.printProblems([]fleet.Node{d.Node}, d.Unknown)
	return nil
}

// noNode is the error about a node that does not exist.
func noNode(name string, nodes cluster.List[corev1.Node]) error {
	if len(nodes.Items) == 0 {
		return errors.New("there is no node " + name)
	}
	var names []string
	for _, n := range nodes.Items {
		names = append(names, n.Name)
	}
	return fmt.Errorf("there is no node %s; there are %s", name, events.Names(names, events.Listed))
}
