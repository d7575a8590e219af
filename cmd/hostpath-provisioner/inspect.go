package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const inspectHelp = `hostpath-provisioner inspect prints pools: their space, their volumes with
owners, sizes and states, orphans, directories without a record, and their
trash. It only reads, also while an agent runs. In the container of an agent it
waits for another inspect to end, for some seconds.

With --published it prints where volumes are mounted instead, and exits with 1 if one is: what
removes files below such a place, as a reset of the node does, removes the volume's data.

Usage:
  hostpath-provisioner inspect [-o json] [--published] [DIRECTORY ...]

A relative DIRECTORY is relative to the working directory. Without one, those of
the environment variables PV_DIR and DATADIR are printed. Several come as one JSON object after the other.

Flags:
%s`

// runInspect runs the command inspect.
func runInspect(args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("inspect", pflag.ContinueOnError)
	published := flags.Bool("published", false, "print where volumes are mounted, and exit with 1 if one is")
	format, err := parse(flags, inspectHelp, args, out, "table", "json")
	if err != nil || format == "" {
		return err
	}
	shown, beside, err := poolsToInspect(flags.Args())
	if err != nil {
		return agent.Usagef("inspect: %w", err)
	}
	release, err := admit("/proc/1/exe", "/proc/self/exe", admitWithin)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	defer release()
	if *published {
		return printPublished(out, format, shown)
	}
	reports, err := inspect.ReadAll(shown, beside)
	errs := []error{err}
	for i, report := range reports {
		if format == "json" {
			errs = append(errs, printJSON(out, report))
			continue
		}
		if i > 0 {
			fmt.Fprintln(out)
		}
		errs = append(errs, printReport(out, report))
	}
	return errors.Join(errs...)
}

// escaped returns the JSON with all unprintable characters escaped, also those that JSON allows,
// such as DEL and U+009B: a terminal would interpret them.
func escaped(data []byte) string {
	var b strings.Builder
	for _, r := range string(data) {
		switch {
		case r == '\n', unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// printReport prints the report as tables.
func printReport(out io.Writer, r inspect.Report) error {
	owner := "owned by no process"
	if r.Pool.Held {
		owner = "owned by " + r.Pool.Holder
	}
	name := ""
	if r.Pool.Name != "" {
		name = r.Pool.Name + ", "
	}
	show(out, "pool      %s%s, %s\n          %s\n", name, r.Pool.Path, r.Pool.ID, owner)
	show(out, "space     %s available: %s free of %s, %s allocated to %s%s\n", contract.Size(r.Space.Available),
		contract.Size(r.Space.Free),
		contract.Size(r.Space.Total), contract.Size(r.Space.Allocated), events.Count(len(r.Volumes), "volume"),
		unavailable(r))
	if r.Pool.NoQuotas == "" {
		show(out, "quotas    %s\n", r.Pool.Quotas)
	} else {
		show(out, "quotas    %s: %s\n", r.Pool.Quotas, r.Pool.NoQuotas)
	}
	for _, w := range r.Warnings {
		show(out, "warning   %s\n", w)
	}
	for _, d := range r.Damaged {
		show(out, "damaged   %s\n", d)
	}
	for _, v := range r.Volumes {
		if v.Migration != nil && v.Migration.Stopped != "" {
			show(out, "migration %s: %s\n", v.Name, v.Migration.Stopped)
		}
	}
	for _, t := range r.Trash {
		if t.Stuck != "" {
			show(out, "stuck     %s in the trash: %s\n", t.ID, t.Stuck)
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(r.Volumes) > 0 {
		fmt.Fprintln(table, "\nVOLUME\tSTATE\tSIZE\tCLAIM\tPV\tPOLICY\tCREATED")
	}
	for _, v := range r.Volumes {
		show(table, "%s\t%s\t%s\t%s/%s\t%s\t%s\t%s\n", v.Name, state(v, r.Pool.NoQuotas == ""), contract.Size(v.Bytes),
			v.Owner.Namespace, v.Owner.Name, v.PV, v.ReclaimPolicy, v.Created.Format(time.DateTime))
	}
	printOrphans(table, r)
	if len(r.Kept) > 0 {
		fmt.Fprintln(table, "\nKEPT\tVOLUME\tSIZE\tCLAIM\tPV\tDELETED")
	}
	for _, k := range r.Kept {
		show(table, "%s\t%s\t%s\t%s/%s\t%s\t%s\n", k.ID, k.Name, contract.Size(k.Bytes), k.Owner.Namespace, k.Owner.Name,
			k.PV, k.Since.Format(time.DateTime))
	}
	if len(r.Trash) > 0 {
		fmt.Fprintln(table, "\nTRASH\tVOLUME\tSIZE\tSINCE")
	}
	for _, t := range r.Trash {
		show(table, "%s\t%s\t%s\t%s\n", t.ID, t.Name, contract.Size(t.Bytes), t.Since.Format(time.DateTime))
	}
	return table.Flush()
}

// unavailable continues the line of a pool's space with what else is not available.
func unavailable(r inspect.Report) (text string) {
	if r.Space.Elsewhere > 0 {
		text += ", " + contract.Size(r.Space.Elsewhere) + " to other pools on the filesystem"
	}
	if r.Space.Kept > 0 {
		text += ", " + contract.Size(r.Space.Kept) + " more once kept volumes are removed for it"
	}
	if r.Space.External > 0 {
		text += ", " + contract.Size(r.Space.External) + " used otherwise"
	}
	if r.Pool.Reserve > 0 {
		text += ", " + contract.Size(r.Pool.Reserve) + " reserved"
	}
	return text
}

// printOrphans prints the orphans that the agent last recorded, and the directories without a
// record. Only the agent knows whether a PV names one of those.
func printOrphans(table io.Writer, r inspect.Report) {
	orphans := slices.DeleteFunc(slices.Clone(r.Volumes), func(v inspect.Volume) bool { return v.Orphan.Why == "" })
	if len(orphans) > 0 {
		fmt.Fprintln(table, "\nORPHAN\tSINCE\tWHY")
	}
	for _, v := range orphans {
		show(table, "%s\t%s\t%s\n", v.Name, v.Orphan.Since.Format(time.DateTime), v.Orphan.Why)
	}
	if len(r.Unrecorded) > 0 {
		fmt.Fprintln(table, "\nNO RECORD\tKIND")
	}
	for _, u := range r.Unrecorded {
		kind := "unknown"
		if _, is := contract.Provisioned(u.Name); is {
			kind = "named as provisioners name volumes"
		}
		show(table, "%s\t%s\n", u.Name, kind)
	}
}

// show prints as fmt.Fprintf does, with unprintable arguments quoted: the name of a file must not
// control the terminal or look like another line.
func show(out io.Writer, format string, args ...any) {
	for i, arg := range args {
		text := fmt.Sprint(arg)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			text = strconv.Quote(text)
		}
		args[i] = text
	}
	fmt.Fprintf(out, format, args...)
}

// state describes a volume's state. quotas reports whether the pool enforces quotas:
// then a volume without one stands out.
func state(v inspect.Volume, quotas bool) string {
	s := string(v.State)
	if v.Adopted {
		s += ", adopted"
	}
	if m := v.Migration; m != nil && m.Step == record.MigrationDone {
		s += ", migrated to " + m.To
	} else if m != nil {
		s += fmt.Sprintf(", migrating to %s (%s)", m.To, m.Step)
	}
	if quotas && v.Quota == 0 && !v.Missing {
		s += ", no quota"
	}
	if v.Missing {
		s += ", MISSING"
	}
	return s
}
