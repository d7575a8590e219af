package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/removal"
)

// checkRemoval runs the command check-removal, which the chart runs before it removes a form, and
// before it upgrades a release: it fails while something needs what that removes.
func checkRemoval(ctx context.Context, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("check-removal", pflag.ContinueOnError)
	form := flags.String("form", "", "the form of the chart that is to be removed; with --upgrade that after it")
	upgrade := flags.Bool("upgrade", false, "check an upgrade of the release to the form")
	release := flags.String("release", "", "the release that is removed or upgraded")
	namespace := flags.String("namespace", "", "its namespace")
	env := flags.StringArray("env", nil, "a setting of the agents after the upgrade, NAME=VALUE")
	kubeconfig := flags.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig; without it the account of the pod")
	flags.SetOutput(out)
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("check-removal: %w; --help lists the flags", err)
	case flags.NArg() > 0 || *form == "":
		return errors.New("check-removal: --form is required; --help lists the flags")
	case *upgrade && (*release == "" || *namespace == ""):
		return errors.New("check-removal: --upgrade needs --release and --namespace; --help lists the flags")
	}
	api, err := reader(*kubeconfig)
	if err != nil {
		return err
	}
	if *upgrade {
		to := removal.Upgrade{Release: *release, Namespace: *namespace, Form: *form, Env: map[string]string{}}
		for _, e := range *env {
			name, value, _ := strings.Cut(e, "=")
			to.Env[name] = value
		}
		if err := to.Check(ctx, api); err != nil {
			return fmt.Errorf("no upgrade to the form %s: %w", *form, err)
		}
		fmt.Fprintf(out, "nothing needs what an upgrade to the form %s removes\n", *form)
		return nil
	}
	check := func() error { return removal.Check(ctx, api, *form) }
	if *release != "" {
		check = func() error { return removal.CheckRelease(ctx, api, *release, *namespace, *form) }
	}
	if err := check(); err != nil {
		return fmt.Errorf("form %s stays: %w", *form, err)
	}
	fmt.Fprintf(out, "nothing needs the form %s\n", *form)
	return nil
}

// reader returns a reader of the API server.
func reader(kubeconfig string) (client.Reader, error) {
	config, err := live.APIServer(kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme, err := operator.Scheme()
	if err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return installed.Paged(api, typed), nil
}
