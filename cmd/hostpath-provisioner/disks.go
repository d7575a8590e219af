package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/disks"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

const inspectDisksHelp = `hostpath-provisioner disks inspect prints the devices of this node and what is
done with each, as the process that runs in this container last saw it.

Usage:
  hostpath-provisioner disks inspect [-o json|yaml]

Flags:
%s`

// offerDisks runs the command disks.
func offerDisks(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "inspect" {
		return inspectDisks(ctx, args[1:], out)
	}
	o, err := disks.Parse(args, out)
	if err != nil {
		return agent.Usagef("disks: %w", err)
	}
	if o == nil {
		return nil
	}
	client, err := agent.NewClient(o.Kubeconfig, o.Node, o.QPS)
	if err != nil {
		return err
	}
	return disks.Run(ctx, version, client, o)
}

func inspectDisks(ctx context.Context, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("disks inspect", pflag.ContinueOnError)
	address := flags.String("metrics-addr", settings.DisksAddress, "that of the process")
	format, err := parse(flags, inspectDisksHelp, args, out, "table", "json", "yaml")
	switch {
	case err != nil || format == "":
		return err
	case flags.NArg() > 0:
		return agent.Usagef("disks inspect: %q is no flag", flags.Arg(0))
	}
	reports, failure, err := askDevices(ctx, *address)
	if err == nil {
		err = printDevicesAs(format, out, reports)
	}
	if err == nil && failure != "" {
		err = fmt.Errorf("the devices were not compared the last time, so what is printed is older, or nothing: %s", failure)
	}
	if err != nil {
		return fmt.Errorf("disks inspect: %w", err)
	}
	return nil
}

func printDevicesAs(format string, out io.Writer, reports []disks.Report) error {
	switch format {
	case "json":
		return printJSON(out, reports)
	case "yaml":
		text, err := yaml.Marshal(reports)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return printDevices(out, reports)
}

// askDevices asks the process of this container. failure is why its last comparison failed, or "".
func askDevices(ctx context.Context, address string) (reports []disks.Report, failure string, err error) {
	p := process{"process", "--metrics-addr", address, 10 * time.Second}
	header, err := p.ask(ctx, http.MethodGet, disks.Path, nil, &reports)
	if refused := new(answerError); errors.As(err, &refused) {
		err = fmt.Errorf("the process at %s answers %d %s", address, refused.code, http.StatusText(refused.code))
	}
	return reports, header.Get(disks.FailureHeader), err
}

// printDevices prints a line for each device.
func printDevices(out io.Writer, reports []disks.Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DEVICE\tID\tSIZE\tSTATE\tPV\tWHY")
	for _, r := range reports {
		state := string(r.State)
		if r.State == disks.Wiping && r.WipeBytes > 0 {
			state = fmt.Sprintf("wiping %d%%", (r.Wiped+r.Verified)*50/r.WipeBytes)
		}
		why := r.Why
		if r.State == disks.Error && !r.Retry.IsZero() {
			why += "; tried again at " + r.Retry.Format(time.RFC3339)
		}
		show(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Device, r.ID, contract.Size(r.Bytes), state, r.PV, why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printConfirmations(out, reports)
	printOwned(out, reports)
	return nil
}

// printOwned prints the commands that keep PVs of older versions when the Node object is deleted.
func printOwned(out io.Writer, reports []disks.Report) {
	head := "\nThe Node owns these PVs, and Kubernetes deletes them with the Node object, with their claims' data. " +
		"To keep them:\n"
	for _, r := range reports {
		if r.Owner != "" {
			fmt.Fprintf(out, "%s  kubectl patch pv %s --type=merge -p "+
				"'{\"metadata\":{\"ownerReferences\":null,\"annotations\":{%q:%q}}}'\n", head, r.PV, contract.AnnNodeUID, r.Owner)
			head = ""
		}
	}
}

// printConfirmations prints the commands that confirm the disks of PVs which may be others.
func printConfirmations(out io.Writer, reports []disks.Report) {
	head := "\nThese disks may not be those of their PVs. Compare each, and run its command if it is:\n"
	for _, r := range reports {
		if r.Confirm != "" {
			fmt.Fprintf(out, "%s  kubectl annotate --overwrite pv %s %s\n", head, r.PV, r.Confirm)
			head = ""
		}
	}
}
