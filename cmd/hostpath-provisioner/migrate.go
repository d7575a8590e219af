package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/agent/migrate"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

const migrateHelp = `hostpath-provisioner migrate prints which PVs of this node are, will be, or
cannot be, replaced by CSI PVs, according to the last check of the agent in this
container. The agent's flag --migrate-to-csi sets what it does with them.

Usage:
  hostpath-provisioner migrate [-o json]

Flags:
%s`

// printPlan runs the command migrate.
func printPlan(ctx context.Context, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("migrate", pflag.ContinueOnError)
	address := flags.String("http-address", settings.AgentAddress, "address of the agent")
	format, err := parse(flags, migrateHelp, args, out, "table", "json")
	switch {
	case err != nil || format == "":
		return err
	case flags.NArg() > 0:
		return agent.Usagef("migrate: %q is no flag; the agent's --migrate-to-csi sets what it does", flags.Arg(0))
	}
	report, err := askPlan(ctx, *address)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if format == "json" {
		return printJSON(out, report)
	}
	if err := report.Print(out); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, report.Age(time.Now()))
	return err
}

// askPlan asks the agent of this container.
func askPlan(ctx context.Context, address string) (report migrate.Report, err error) {
	p := process{"agent", "--http-address", address, 10 * time.Second}
	_, err = p.ask(ctx, http.MethodGet, agent.MigrationPath, nil, &report)
	if refused := new(answerError); errors.As(err, &refused) {
		err = fmt.Errorf("the agent answers %d: it does not serve both kinds of claims (--provision=hostpath,csi)",
			refused.code)
	}
	return report, err
}
