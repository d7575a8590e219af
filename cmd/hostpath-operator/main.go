// Command hostpath-operator installs and keeps the agents that a HostPathProvisioner describes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kubevirt.io/hostpath-provisioner/controller/kube/heap"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator"
)

// version is set when the program is built.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "hostpath-operator: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// run runs the command check-removal, or the operator until the context ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "check-removal" {
		return checkRemoval(ctx, args[1:], out)
	}
	var addresses operator.Addresses
	var logging flag.FlagSet
	klog.InitFlags(&logging)
	flags := pflag.NewFlagSet("hostpath-operator", pflag.ContinueOnError)
	flags.StringVar(&addresses.Health, "health-address", ":6060", "address of /livez and /readyz")
	flags.StringVar(&addresses.Metrics, "metrics-address", ":8443", "address of /metrics, over HTTPS; 0 is none")
	flags.StringVar(&addresses.Webhook, "webhook-address", ":9443", "address of the admission of changes, over HTTPS")
	kubeconfig := flags.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig; without it the account of the pod")
	show := flags.Bool("version", false, "print the version")
	flags.AddGoFlag(logging.Lookup("v"))
	flags.SetOutput(out)
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("%w; --help lists the flags", err)
	case flags.NArg() > 0:
		return fmt.Errorf("%q is no flag; --help lists the flags", flags.Arg(0))
	case *show:
		fmt.Fprintln(out, version)
		return nil
	}
	log.SetLogger(klog.Background())
	settings, ignored, err := operator.ParseSettings(version, os.Getenv)
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		klog.InfoS("These variables have no effect: the agent needs no other container", "variables", ignored)
	}
	config, err := live.APIServer(*kubeconfig)
	if err != nil {
		return err
	}
	if settings, err = settings.WithImage(ctx, config); err != nil {
		return err
	}
	klog.InfoS("Starting the operator", "version", version, "namespace", settings.Namespace, "image", settings.Image)
	go heap.Bound(ctx)
	return settings.Run(ctx, config, addresses)
}
