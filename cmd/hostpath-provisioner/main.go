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
		os.Exit(1)
	}
}

// run is the whole program but for its exit code.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "inspect" {
		return inspect(args[1:], out)
	}
	if len(args) > 0 && args[0] == "migrate" {
		return printPlan(ctx, args[1:], out)
	}
	o, err := parseOptions(args, out)
	if err != nil || o == nil {
		return err
	}
	return runAgent(ctx, o)
}
