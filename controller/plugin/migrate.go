package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) migrateCommand() *cobra.Command {
	migrate := &cobra.Command{
		Use:   "migrate",
		Short: "Show how far volumes are on the way from hostPath PVs to CSI PVs",
		Long: "migrate has the command status. Agents migrate; docs/migration.md says how to start and stop that.\n\n" +
			"Permissions: see kubectl hpp migrate status --help.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	all, watch := false, false
	c := &cobra.Command{
		Use:   "status",
		Short: "List the volumes that are, or were, hostPath volumes, with the state of their migration",
		Long: "status lists the volumes that are, or were, hostPath volumes: which have a CSI PV, which are on the way,\n" +
			"and which stopped and why.\n\n" +
			"Permissions: list persistentvolumes, nodes, csistoragecapacities, and pods and events of all namespaces;\n" +
			"list persistentvolumeclaims in the namespace. With create pods/exec in the agents' namespace it also has\n" +
			"the steps of migrations under way; without it, what the PVs show.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.migrateStatus(c.Context(), all, watch) },
	}
	c.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list volumes of all namespaces")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "print again when something changes, until interrupted")
	migrate.AddCommand(c)
	return migrate
}

func (s *session) migrateStatus(ctx context.Context, all, watch bool) error {
	if err := s.connect("wide", "name"); err != nil {
		return err
	}
	if !watch {
		return s.printMigrations(ctx, all)
	}
	if s.screen != nil && !s.isData() && s.output != "name" {
		return s.live(ctx, func(ctx context.Context) error { return s.printMigrations(ctx, all) })
	}
	s.interrupted = nil
	var last []byte
	out := s.Out
	defer func() { s.Out = out }()
	return every(ctx, redrawAfter, func(ctx context.Context) error {
		var text bytes.Buffer
		s.Out = &text
		err := s.printMigrations(ctx, all)
		if err != nil || ctx.Err() != nil || bytes.Equal(text.Bytes(), last) { // interrupted, it is not complete
			return err
		}
		if last != nil && !s.isData() {
			_, err = io.WriteString(out, "\n")
		}
		last = text.Bytes()
		return errors.Join(err, write(out, last))
	})
}

func write(out io.Writer, text []byte) error {
	_, err := out.Write(text)
	return err
}

func (s *session) printMigrations(ctx context.Context, all bool) error {
	namespace := s.namespaced(all)
	stock, nodes := s.stock(ctx, namespace, false)
	l := List[fleet.Migration]{Unknown: stockUnknowns(stock), Missing: missing(nodes, &stock.Facts)}
	p := printed{none: "no volume is, or was, a hostPath volume; -A lists those of all namespaces",
		table: &view.Table{Columns: view.Columns("NAMESPACE", "CLAIM", "NODE", "TO", "STEP", "+CHANGED", "+PV", "?WHY")}}
	done := 0
	for _, m := range fleet.Migrations(stock) {
		if namespace != "" && m.Namespace != namespace {
			continue
		}
		if m.Done() {
			done++
		}
		l.Items = append(l.Items, m)
		p.names = append(p.names, "persistentvolume/"+m.PV)
		p.table.Add(m.Namespace, m.Claim, m.Node, m.To, m.Step, s.ago(m.Changed), m.PV, m.Why)
	}
	for _, m := range l.Missing {
		addReason(p.table, m, "NODE", "STEP", "WHY")
	}
	if !s.isData() && s.output != "name" && len(l.Items) > 0 {
		if err := printProgress(s.Out, done, len(l.Items)); err != nil {
			return err
		}
	}
	return print(s, l, p)
}

// printProgress prints how many volumes have their CSI PV.
func printProgress(out io.Writer, done, all int) error {
	_, err := fmt.Fprintf(out, "%d of %d have CSI PVs   %s\n\n", done, all, view.Bar(int64(done), int64(all)))
	return err
}
