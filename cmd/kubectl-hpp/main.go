// Command kubectl-hpp is the plugin `kubectl hpp`: the cluster's local storage at a glance, and why
// a claim waits. See package plugin.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credentials of cloud providers
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/plugin"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// version is set by the build.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(klog.Logger{}) // what client-go logs is in the answers already: stderr is for people
	command := plugin.Command(version, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	plugin.Named(command, os.Args[0])
	if err := command.ExecuteContext(ctx); err != nil {
		if !plugin.Quiet(err) {
			fmt.Fprintf(os.Stderr, "kubectl-hpp: %s\n", view.Printable(err.Error()))
		}
		stop()
		os.Exit(plugin.ExitCode(err))
	}
}
