package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) doctorCommand() *cobra.Command {
	failOn, measure := string(doctor.Warning), false
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation for what will hurt",
		Long: "doctor checks agents, pools, classes, volumes and the cluster, and says what will hurt and how to mend it.\n" +
			"What cannot be read is unknown, never ok.\n\n" +
			"It exits with 0 if it found nothing, with 1 if there are warnings or something is unknown, and with 2 if\n" +
			"something is critical. With --fail-on=critical warnings exit with 0, too. Without an answer of the API\n" +
			"server it exits with 1 and prints no rows.\n\n" +
			"Permissions: list nodes, csinodes, csidrivers, storageclasses, persistentvolumes, csistoragecapacities,\n" +
			"hostpathprovisioners, and persistentvolumeclaims, pods and daemonsets of all namespaces; list leases in the\n" +
			"namespace kube-node-lease and events in the agents' namespace; create subjectaccessreviews; in the agents'\n" +
			"namespace get pods/proxy and create pods/exec. With --measure create, list and deletecollection of\n" +
			"persistentvolumeclaims in your namespace.",
		Example: "  kubectl hpp doctor\n  kubectl hpp doctor --fail-on=critical -o json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.doctor(c.Context(), failOn, measure) },
	}
	c.Flags().StringVar(&failOn, "fail-on", failOn, "the verdict from which the exit code is not 0: warning or critical")
	c.Flags().BoolVar(&measure, "measure", false, "also measure how fast kube-controller-manager is: creates 80 claims\n"+
		"without a class in your namespace, which get no volume, and deletes them again")
	return c
}

func (s *session) doctor(ctx context.Context, failOn string, measure bool) error {
	if !slices.Contains([]string{string(doctor.Warning), string(doctor.Critical)}, failOn) {
		return fmt.Errorf("--fail-on %q: it must be warning or critical", failOn)
	}
	if err := s.connect("wide"); err != nil {
		return err
	}
	facts := doctor.Read(ctx, s.reader, s.pools, s.timeout)
	if measure {
		facts.Measured = doctor.Measure(ctx, s.reader.Client, s.namespace)
	}
	if err := ctx.Err(); err != nil { // what was read is not complete
		return err
	}
	rows := doctor.Run(facts)
	if err := s.printDiagnosis(rows); err != nil {
		return err
	}
	if code := exitCode(rows, failOn); code != 0 {
		return &ExitError{Code: code, Err: errQuiet}
	}
	return nil
}

// exitCode returns the code of the rows. What is unknown may be critical, so it is never 0.
func exitCode(rows []doctor.Row, failOn string) int {
	switch {
	case doctor.Has(rows, doctor.Critical):
		return 2
	case doctor.Has(rows, doctor.Unknown), doctor.Has(rows, doctor.Warning) && failOn == string(doctor.Warning):
		return 1
	}
	return 0
}

// printDiagnosis prints the findings as a table, or all rows for programs.
func (s *session) printDiagnosis(rows []doctor.Row) error {
	if s.isData() {
		return view.Data(s.Out, s.output, rows)
	}
	short := doctor.Short(rows, s.style.Wide)
	if err := s.printRows(short); err != nil {
		return err
	}
	if len(short) > 0 {
		fmt.Fprintln(s.Out)
	}
	_, err := fmt.Fprintln(s.Out, tally(rows))
	return err
}

// verdicts are the colors of verdicts.
var verdicts = map[doctor.Verdict]view.Paint{doctor.Critical: view.Red, doctor.Warning: view.Yellow,
	doctor.Unknown: view.Gray, doctor.OK: view.Green}

// printRows prints the rows as a table, or broken into lines on a terminal, which is narrower.
func (s *session) printRows(rows []doctor.Row) error {
	t := &view.Table{Columns: view.Columns("VERDICT", "CHECK", "OBJECT", "WHY", "FIX", "PAGE")}
	var b strings.Builder
	for _, r := range rows {
		t.Add(r.Verdict, r.Check, r.Object, r.Why, r.Fix, r.Page)
		fmt.Fprintf(&b, "%s %s", s.style.Paint(verdicts[r.Verdict], fmt.Sprintf("%-8s", r.Verdict)),
			s.style.Paint(view.Bold, r.Check))
		if r.Object != "" {
			b.WriteString(": " + view.Printable(r.Object))
		}
		b.WriteString("\n")
		if r.Why != "" {
			b.WriteString(s.style.Wrapped("    ", r.Why))
		}
		if r.Fix != "" {
			b.WriteString(s.style.Wrapped("    → ", r.Fix+" ("+r.Page+")"))
		}
	}
	if s.style.Width == 0 {
		return t.Print(s.Out, s.style)
	}
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// tally returns the numbers of checks and findings in a line.
func tally(rows []doctor.Row) string {
	names, count := map[string]bool{}, map[doctor.Verdict]int{}
	for _, r := range rows {
		names[r.Check] = true
		count[r.Verdict]++
	}
	return fmt.Sprintf("%s: %d critical, %s, %d unknown", events.Count(len(names), "check"), count[doctor.Critical],
		events.Count(count[doctor.Warning], "warning"), count[doctor.Unknown])
}
