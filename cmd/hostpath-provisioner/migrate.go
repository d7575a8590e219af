package main

import (
	"context"
	"encoding/json"
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
	format := flags.StringP("output", "o", "table", "table or json")
	address := flags.String("http-address", settings.AgentAddress, "address of the agent")
	flags.Usage = func() { fmt.Fprintf(out, migrateHelp, flags.FlagUsages()) }
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return agent.Usagef("migrate: %w; --help lists the flags", err)
	case flags.NArg() > 0:
		return agent.Usagef("migrate: %q is no flag; the agent's --migrate-to-csi sets what it does", flags.Arg(0))
	case *format != "table" && *format != "json":
		return agent.Usagef("migrate: output %q is neither table nor json", *format)
	}
	report, err := askPlan(ctx, *address)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if *format == "table" {
		if err := report.Print(out); err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, report.Age(time.Now()))
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// askPlan asks the agent of this container.
func askPlan(ctx context.Context, address string) (report migrate.Report, err error) {
	err = ask(ctx, 10*time.Second, address, http.MethodGet, agent.MigrationPath, nil, &report)
	if refused := new(answerError); errors.As(err, &refused) {
		err = fmt.Errorf("the agent answers %d: it does not serve both kinds of claims (--provision=hostpath,csi)",
			refused.code)
	}
	return report, err
}
