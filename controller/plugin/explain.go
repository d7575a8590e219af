package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/explain"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "explain CLAIM",
		Aliases: []string{"why"},
		Short:   "Say why a claim waits, or where its volume is and why there",
		Long: "explain says why a claim waits and what to do, or on which node its volume is and why there.\n\n" +
			"It reads the events that agents and operator recorded, and adds what classes, nodes, agents and pods show.\n\n" +
			"Permissions: get persistentvolumeclaims; list events and pods in the namespace; get and list storageclasses;\n" +
			"get persistentvolumes; list nodes, csinodes, csistoragecapacities; list events, pods and daemonsets of all\n" +
			"namespaces. With create pods/exec in the agents' namespace it also has the space, inodes and quotas of the\n" +
			"pools as they are now.",
		Example: "  kubectl hpp explain data -n shop\n  kubectl hpp explain pvc/data -o json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return s.explain(c.Context(), args[0]) },
	}
}

func (s *session) explain(ctx context.Context, name string) error {
	if err := s.connect(); err != nil {
		return err
	}
	if kind, after, ok := strings.Cut(name, "/"); ok {
		if !slices.Contains([]string{"pvc", "pvcs", "persistentvolumeclaim", "persistentvolumeclaims"}, kind) {
			return fmt.Errorf("%s is no claim: name one, as `kubectl get pvc -n NAMESPACE` lists it", name)
		}
		name = after
	}
	claim := s.reader.Claim(ctx, s.namespace, name)
	switch {
	case !claim.Known():
		return fmt.Errorf("claim %s/%s: %s", s.namespace, name, claim.Unknown)
	case claim.It == nil:
		return s.noClaim(ctx, name)
	}
	facts := explain.Read(ctx, s.reader, s.pools, claim.It)
	answer := explain.Explain(&facts)
	if s.isData() {
		return view.Data(s.Out, s.output, answer)
	}
	return printAnswer(s.Out, s.style, &answer)
}

// noClaim is the error about a claim that does not exist. It names what is kept of a deleted one, or why
// that is unknown, and then the claims of the name in other namespaces, or those of the namespace.
func (s *session) noClaim(ctx context.Context, name string) error {
	var elsewhere, here []string
	for _, c := range s.reader.Claims(ctx, "").Items {
		switch {
		case c.Name == name:
			elsewhere = append(elsewhere, c.Namespace)
		case c.Namespace == s.namespace:
			here = append(here, c.Name)
		}
	}
	text := fmt.Sprintf("there is no claim %s in namespace %s", name, s.namespace)
	all := s.reader.Agents(ctx)
	pools, unasked := s.pools(ctx, all.Items)
	switch kept := advice.Kept(pools, s.namespace, name); {
	case len(kept) > 1:
		return errors.New(view.Printable(fmt.Sprintf("%s: the pools keep %d deleted volumes of that name; an administrator "+
			"chooses one from the list: kubectl hpp undelete %s -n %s", text, len(kept), name, s.namespace)))
	case len(kept) == 1:
		return errors.New(view.Printable(fmt.Sprintf("%s: %s; %s", text, kept[0].What(), kept[0].Do())))
	}
	unknown := cmp.Or(all.Unknown, unasked)
	for _, p := range pools {
		if p.Problem != "" {
			unknown = cmp.Or(unknown, fmt.Sprintf("node %s: %s", p.Agent.Node, p.Problem))
		}
	}
	if unknown != "" {
		text += view.Printable(fmt.Sprintf(" (unknown is whether a deleted volume of it is kept: %s)", unknown))
	}
	switch {
	case len(elsewhere) > 0:
		return fmt.Errorf("%s; namespace %s has one: add -n %s", text, events.FirstNames(elsewhere), elsewhere[0])
	case len(here) > 0:
		return fmt.Errorf("%s; it has %s", text, events.Names(here, events.Listed))
	}
	return fmt.Errorf("%s: -n NAMESPACE chooses another", text)
}

// marks are what a finding of a level begins with.
var marks = map[explain.Level]struct {
	mark  string
	paint view.Paint
}{
	explain.Cause:   {"✗", view.Red},
	explain.Warning: {"!", view.Yellow},
	explain.Note:    {"·", view.Green},
	explain.Unknown: {"?", view.Gray},
}

// printAnswer prints what was found, the nodes as a table, and the events.
func printAnswer(out io.Writer, style view.Style, a *explain.Answer) error {
	head := fmt.Sprintf("claim %s/%s, %s", a.Namespace, a.Name, contract.Size(a.Size))
	if a.Class != "" {
		head += ", class " + a.Class
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, created %s ago\n\n", view.Printable(head), style.Paint(view.Bold, a.State), a.Since)
	for _, f := range a.Findings {
		m := marks[f.Level]
		line := style.Wrapped("  "+m.mark+" ", f.What)
		b.WriteString(strings.Replace(line, m.mark, style.Paint(m.paint, m.mark), 1))
		if f.Do != "" {
			b.WriteString(style.Wrapped("    → ", f.Do))
		}
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	if err := printNodes(out, style, a.Nodes); err != nil {
		return err
	}
	return printEvents(out, style, a.Events)
}

func printNodes(out io.Writer, style view.Style, nodes []explain.Node) error {
	if len(nodes) == 0 {
		return nil
	}
	table := view.Table{Columns: view.Columns("NODE", "READY", "AGENT", "POOL", "AVAILABLE>", "LACKS")}
	for _, n := range nodes {
		available := "unknown"
		if n.Available != nil {
			available = contract.Size(*n.Available)
		} else if n.Pool == "" {
			available = ""
		}
		table.Add(n.Name, n.Ready, n.Agent, n.Pool, available, n.Text())
	}
	fmt.Fprintln(out)
	return table.Print(out, style)
}

func printEvents(out io.Writer, style view.Style, all []explain.Event) error {
	if len(all) == 0 {
		return nil
	}
	table := view.Table{Columns: view.Columns("AGE", "TYPE", "OF", "REASON", "MESSAGE")}
	for _, e := range all {
		if e.Type == corev1.EventTypeWarning || style.Wide || len(all) <= 5 {
			table.Add(e.Age, e.Type, e.Object, e.Reason, e.Message)
		}
	}
	fmt.Fprintln(out)
	return table.Print(out, style)
}
