package plugin

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
	"kubevirt.io/hostpath-provisioner/controller/plugin/report"
)

func (s *session) reportCommand() *cobra.Command {
	file, force := "", false
	c := &cobra.Command{
		Use:   "report",
		Short: "Write what people who help need into a ZIP archive",
		Long: "report writes the objects of the installation, the agents' metrics, pools and logs of the last hour, and\n" +
			"what doctor finds, into one archive. Its MANIFEST.txt lists what is inside, and what is missing and why.\n\n" +
			"It reads no Secret. Annotations, claims' labels and other people's storage are left out; names of namespaces,\n" +
			"claims, nodes and images are inside. Look at it before you give it away.\n\n" +
			"Permissions: those of doctor; list events of all namespaces; get pods/log in the agents' namespace. What\n" +
			"you may not read is missing in the archive.",
		Example: "  kubectl hpp report\n  kubectl hpp report -f report.zip",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.report(c.Context(), file, force) },
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the archive; hpp-report-TIME.zip in this directory if not set")
	c.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return c
}

func (s *session) report(ctx context.Context, file string, force bool) error {
	if err := s.connect(); err != nil {
		return err
	}
	if file == "" {
		file = "hpp-report-" + time.Now().UTC().Format("20060102-150405") + ".zip"
	}
	var entries []report.Entry
	size, err := report.Save(file, force, func(to io.Writer) (err error) {
		s.part("doctor")
		sources := report.Sources{Reader: s.reader, Version: s.version, Timeout: s.timeout, Progress: s.part}
		sources.Facts = doctor.Read(ctx, s.reader, s.pools, s.timeout)
		if err := s.contact.Problem(); err != nil {
			return err
		}
		sources.Rows = doctor.Run(sources.Facts)
		sources.Asker, sources.NoAsker = s.asker(ctx, sources.Facts.Agents.Items)
		entries, err = report.Write(ctx, to, sources)
		return err
	})
	if err != nil {
		return err
	}
	missing := 0
	for _, e := range entries {
		if e.Bytes < 0 {
			missing++
		}
	}
	fmt.Fprintf(s.Out, "%s: %d files, %s", file, len(entries)-missing, contract.Size(size))
	if missing > 0 {
		fmt.Fprintf(s.Out, "; %d are missing: see %s in it", missing, report.ManifestName)
	}
	_, err = fmt.Fprintln(s.Out)
	return err
}

// part prints which part of the report begins, if stderr is a terminal.
func (s *session) part(name string) {
	if f, ok := s.ErrOut.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(s.ErrOut, "reading %s ...\n", name)
	}
}
