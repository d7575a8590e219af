// Command hostpath-provisioner is the node agent: one process in one container on every node. It
// turns the claims of its node into directories and PVs, and serves them through CSI.
//
//	ask.go        asks the agent of this container
//	disks.go      the commands that offer raw disks, and print them
//	hold.go       the commands that mount the filesystem of a claim for a pool, and unmount it
//	inspect.go    the command that prints pools; inspect_pools.go chooses which, and inspect_admit.go
//	              lets one in at a time
//	migrate.go    the command that prints the plan of the migration
//	orphans.go    the commands that print volumes without a PV, bring one back, and remove one
//	recover.go    the command that prints what brings all volumes back
//	trash.go      the commands that print deleted volumes, bring one back, and remove some
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/kube/heap"
)

// version is set by the linker; see the Makefile.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "hostpath-provisioner: %v\n", err)
		stop()
		os.Exit(agent.ExitCode(err))
	}
}

// run runs the command that the arguments name, the agent without one.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "disks":
			return offerDisks(ctx, args[1:], out)
		case "hold":
			return holdClaim(ctx, args[1:], out)
		case "inspect":
			return runInspect(args[1:], out)
		case "migrate":
			return printPlan(ctx, args[1:], out)
		case "orphans":
			return runOrphans(ctx, args[1:], out)
		case "recover":
			return runRecover(ctx, args[1:], out)
		case "trash":
			return runTrash(ctx, args[1:], out)
		case "unmount":
			return unmountPool(ctx, args[1:], out)
		case "version":
			return printVersion(args[1:], out)
		}
	}
	// With a value, --version is a flag of the CSI driver.
	if len(args) == 1 && args[0] == "--version" {
		return printVersion(nil, out)
	}
	go heap.Bound(ctx)
	return agent.Run(ctx, version, args, out)
}

// printVersion runs the command version.
func printVersion(args []string, out io.Writer) error {
	if len(args) > 0 {
		return agent.Usagef("version: unexpected argument %q; the command takes none", args[0])
	}
	_, err := fmt.Fprintf(out, "hostpath-provisioner %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH,
		runtime.Version())
	return err
}
