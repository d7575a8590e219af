package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// List is what a command that lists prints for programs.
type List[T any] struct {
	Items []T `json:"items"`
	// Missing are the nodes of which parts are not in Items.
	Missing []Missing `json:"missing,omitempty"`
	// Unknown are the reasons why parts are unknown on all nodes.
	Unknown []string `json:"unknown,omitempty"`
}

// Missing is a node of which something is not known.
type Missing struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// printed is how a list is printed for people: a table, or a name for each item.
type printed struct {
	table *view.Table
	names []string
	none  string       // printed to stderr if the table is empty
	nodes []fleet.Node // their problems are printed below the table
}

// print prints a list as the user wants it.
func print[T any](s *session, l List[T], p printed) error {
	switch {
	case s.isData():
		if l.Items == nil {
			l.Items = []T{}
		}
		return view.Data(s.Out, s.output, l)
	case s.output == "name":
		for _, name := range p.names {
			if _, err := fmt.Fprintln(s.Out, view.Printable(name)); err != nil {
				return err
			}
		}
		return printReasons(s.ErrOut, l.Missing, l.Unknown)
	case len(p.table.Rows) == 0 && len(l.Unknown) == 0:
		_, err := fmt.Fprintln(s.ErrOut, p.none)
		return err
	}
	if err := p.table.Print(s.Out, s.style); err != nil {
		return err
	}
	s.printProblems(p.nodes, l.Unknown)
	return nil
}

// printReasons prints why a list may not be complete.
func printReasons(out io.Writer, missing []Missing, unknown []string) error {
	for _, m := range missing {
		unknown = append(unknown, "node "+m.Node+": "+m.Why)
	}
	for _, reason := range unknown {
		if _, err := fmt.Fprintln(out, "unknown: "+view.Printable(reason)); err != nil {
			return err
		}
	}
	return nil
}

// stock reads the installation, and the volumes of a namespace, or of all if it is "".
func (s *session) stock(ctx context.Context, namespace string, pods bool) (*fleet.Stock, []fleet.Node) {
	stock, nodes := &fleet.Stock{}, []fleet.Node(nil)
	cluster.Together(
		func() { stock.Facts, nodes = s.fleet(ctx) },
		func() { stock.PVs = s.reader.PVs(ctx) },
		func() { stock.Claims = s.reader.Claims(ctx, namespace) },
		func() {
			if pods {
				stock.Pods = s.reader.Pods(ctx, namespace, "")
			}
		},
	)
	return stock, nodes
}

// stockUnknowns returns the reasons why parts of the stock are unknown.
func stockUnknowns(f *fleet.Stock) []string {
	all := unknowns(&f.Facts)
	for _, reason := range []string{f.PVs.Unknown, f.Claims.Unknown, f.Pods.Unknown} {
		if reason != "" && !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	return all
}

// missing returns the nodes whose pools are not all known, with the reason. A node without an agent
// is one of them.
func missing(nodes []fleet.Node, f *fleet.Facts) (all []Missing) {
	problems := map[string]string{}
	for _, p := range f.Pools {
		if p.Problem != "" {
			problems[p.Agent.Node] = p.Problem
		}
	}
	for _, n := range nodes {
		if problems[n.Name] != "" || len(n.Pools) == 0 && len(n.Problems) > 0 {
			all = append(all, Missing{Node: n.Name, Why: whyMissing(n, problems[n.Name], f)})
		}
	}
	return all
}

// whyMissing says why the pools of a node are not known. problem is that of asking its agent.
func whyMissing(n fleet.Node, problem string, f *fleet.Facts) string {
	var why []string
	switch n.Ready {
	case "no":
		why = append(why, "the node is not ready")
	case "gone":
		why = append(why, "the node does not exist")
	}
	if len(n.Agents) == 0 && f.Agents.Known() {
		why = append(why, "no agent runs there")
	}
	for _, a := range n.Agents {
		if !a.Ready && a.Process == cluster.NodeAgent {
			why = append(why, "pod "+a.Pod+" is not ready: "+a.Why)
		}
	}
	if problem != "" {
		why = append(why, problem)
	}
	return cmp.Or(strings.Join(why, "; "), strings.Join(n.Problems, "; "))
}

// namespaced returns the namespace that a command lists: that of the user, or "" for all.
func (s *session) namespaced(all bool) string {
	if all {
		return ""
	}
	return s.namespace
}
