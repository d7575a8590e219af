// Command cluster starts and ends a local Kubernetes cluster, and works with its nodes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

const usage = `usage: cluster COMMAND

  up [--nodes N] [--k8s-version V] [--hostname NODE=LABEL]...
                    start a cluster; does nothing if it is up
  down              end it and remove everything that it created
  status            list nodes and processes
  build [--k8s-version V]
                    compile the programs, and print the path of kubectl
  load TAR...       import image archives on all nodes
  image --binary FILE --name NAME --out TAR
                    write an image of one static program; needs no container engine
  exec NODE -- CMD ARG...
                    run a command in a node's mount namespace
  stop-kubelet NODE, start-kubelet NODE
                    let a node die, and bring it back: its pods continue to run
  node-dir NODE     print the path of the node's /var/hpvolumes on the host
  kubeconfig        print the path of the administrator's kubeconfig

Variables: K8S_VERSION, NODES, HPP_E2E_STATE, HPP_E2E_CACHE.
`

// commands are the subcommands. Each gets the arguments after its name.
var commands = map[string]func(context.Context, []string) error{
	"up": up, "down": down, "status": status, "build": build, "load": load, "image": image,
	"exec": execute, "stop-kubelet": stopKubelet, "start-kubelet": startKubelet, "node-dir": nodeDir,
	"kubeconfig": kubeconfig,
}

// printedError is the failure of a command that exec ran: the command has printed the reason, and
// its exit code is passed on.
type printedError struct{ exit *exec.ExitError }

func (e *printedError) Error() string { return e.exit.Error() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var printed *printedError
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case errors.As(err, &printed):
		os.Exit(max(printed.exit.ExitCode(), 1))
	default:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(os.Stderr, usage)
		return flag.ErrHelp
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("unknown command %q; 'cluster help' lists them", args[0])
	}
	return command(ctx, args[1:])
}
