// Command hostpath-provisioner is the node agent: one process, one container,
// on every node. It turns the claims of its node into directories and the PVs
// that name them, and serves them through CSI.
//
//	options.go    the flags, and what is wrong with them
//	driver.go provision.go serve.go pprof.go    flags of one concern, and what they mean
//	datadir.go pools.go    which directories are pools
//	agent.go      the parts are built
//	run.go        joined, and run
//	inspect.go    the command that prints pools
//	migrate.go    flags and command of the migration to CSI PVs
//	version.go    the command that prints the version
//	usage.go      which errors are the caller's
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "hostpath-provisioner: %v\n", err)
		stop()
		os.Exit(exitCode(err))
	}
}

// run is the whole program but for its exit code.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "inspect":
			return inspect(args[1:], out)
		case "migrate":
			return printPlan(ctx, args[1:], out)
		case "version":
			return printVersion(args[1:], out)
		}
	}
	// With a value, --version is a flag of the CSI driver.
	if len(args) == 1 && args[0] == "--version" {
		return printVersion(nil, out)
	}
	o, err := parseOptions(args, out)
	if err != nil || o == nil {
		return settingError(err)
	}
	return runAgent(ctx, o)
}
