package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/operator"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/removal"
)

// checkRemoval runs the command check-removal, which the chart runs before it removes a form: it
// fails while something needs that.
func checkRemoval(ctx context.Context, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("check-removal", pflag.ContinueOnError)
	form := flags.String("form", "", "the form of the chart that is to be removed")
	kubeconfig := flags.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig; without it the account of the pod")
	flags.SetOutput(out)
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("check-removal: %w; --help lists the flags", err)
	case flags.NArg() > 0 || *form == "":
		return errors.New("check-removal: --form is required; --help lists the flags")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	scheme, err := operator.Scheme()
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := removal.Check(ctx, installed.Paged(api, typed), *form); err != nil {
		return fmt.Errorf("form %s stays: %w", *form, err)
	}
	fmt.Fprintf(out, "nothing needs the form %s\n", *form)
	return nil
}
