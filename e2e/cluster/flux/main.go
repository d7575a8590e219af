//go:build ignore

// Command flux does with a file of objects what Flux's kustomize-controller does with a source, by
// Flux's own library: it applies them server-side, or names their drift, or prunes them.
//
//	KUBECONFIG=FILE flux apply|diff|prune NAME FILE
//
// NAME is that of the Kustomization. Each line of the output is an action, such as "unchanged" or
// "skipped", and an object.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// group is that of kustomize-controller's labels and annotations, field its field manager.
const (
	group = "kustomize.toolkit.fluxcd.io"
	field = "kustomize-controller"
)

func main() {
	if err := run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("usage: flux apply|diff|prune NAME FILE")
	}
	text, err := os.ReadFile(args[3])
	if err != nil {
		return err
	}
	objects, err := utils.ReadObjects(bytes.NewReader(text))
	if err == nil {
		err = normalize.UnstructuredList(objects)
	}
	if err != nil {
		return err
	}
	m, err := manager()
	if err != nil {
		return err
	}
	m.SetOwnerLabels(objects, args[2], "flux-system")
	switch args[1] {
	case "apply":
		options := ssa.DefaultApplyOptions()
		options.WaitInterval = time.Second / 2
		options.ExclusionSelector = map[string]string{group + "/reconcile": "disabled"}
		return show(m.ApplyAllStaged(ctx, objects, options))
	case "diff":
		return diff(ctx, m, objects)
	case "prune":
		return show(m.DeleteAll(ctx, objects, ssa.DeleteOptions{
			PropagationPolicy: metav1.DeletePropagationBackground, Inclusions: m.GetOwnerLabels(args[2], "flux-system"),
			Exclusions: map[string]string{group + "/prune": "disabled", group + "/reconcile": "disabled"},
		}))
	}
	return fmt.Errorf("%q is none of apply, diff, prune", args[1])
}

func manager() (*ssa.ResourceManager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(c, c.RESTMapper(), polling.Options{})
	return ssa.NewResourceManager(c, poller, ssa.Owner{Field: field, Group: group}), nil
}

func diff(ctx context.Context, m *ssa.ResourceManager, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		entry, have, want, err := m.Diff(ctx, o, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		fmt.Println(entry.Action, entry.Subject)
		if entry.Action != ssa.UnchangedAction && have != nil {
			fmt.Fprintf(os.Stderr, "%s is\n%s\nand would be\n%s\n", entry.Subject, utils.ObjectToYAML(have), utils.ObjectToYAML(want))
		}
	}
	return nil
}

func show(changes *ssa.ChangeSet, err error) error {
	if changes != nil {
		for _, e := range changes.Entries {
			fmt.Println(e.Action, e.Subject)
		}
	}
	return err
}
