package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

const orphansHelp = `hostpath-provisioner orphans prints the volumes of this node whose PV is gone, as the
agent in this container last found them, and whether "remove" would keep them.

Usage:
  hostpath-provisioner orphans [-o json]
  hostpath-provisioner orphans show NAME     the PV and the claim that bring the volume back;
                                             --as NAMESPACE/CLAIM for another claim
  hostpath-provisioner orphans remove NAME   remove it, with its data, under the conditions
                                             of --orphans=delete, without the grace period;
                                             --trash-retention keeps it like a deleted volume

The agent reads the API server, and removes. If two pools have a volume of that name,
--pool chooses.

Flags:
%s`

// orphansCommand are the settings of the command orphans.
type orphansCommand struct {
	format, address, pool, as string
	out                       io.Writer
}

// runOrphans runs the command orphans.
func runOrphans(ctx context.Context, args []string, out io.Writer) error {
	c := orphansCommand{out: out}
	flags := pflag.NewFlagSet("orphans", pflag.ContinueOnError)
	flags.StringVar(&c.address, "http-address", settings.AgentAddress, "address of the agent")
	flags.StringVar(&c.pool, "pool", "", "directory of the volume's pool")
	flags.StringVar(&c.as, "as", "", "show: claim that gets the volume, NAMESPACE/CLAIM, in place of the recorded one")
	var err error
	if c.format, err = parse(flags, orphansHelp, args, out, "table", "json"); err != nil || c.format == "" {
		return err
	}
	do := c.list
	switch verb := flags.Arg(0); {
	case flags.NArg() == 0:
	case verb != "show" && verb != "remove":
		return agent.Usagef("orphans: %q is neither show nor remove; --help explains both", verb)
	case flags.NArg() != 2:
		return agent.Usagef("orphans %s: name one volume, as the list prints it", verb)
	case verb == "show":
		do = func(ctx context.Context) error { return c.show(ctx, flags.Arg(1)) }
	default:
		do = func(ctx context.Context) error { return c.remove(ctx, flags.Arg(1)) }
	}
	if err := do(ctx); err != nil {
		return fmt.Errorf("orphans: %w", err)
	}
	return nil
}

func (c orphansCommand) list(ctx context.Context) error {
	var all []orphans.Orphan
	if err := c.ask(ctx, http.MethodGet, agent.OrphansPath, nil, &all); err != nil {
		return err
	}
	if c.format == "json" {
		return printJSON(c.out, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(c.out, "no orphans; the agent checks every hour, and soon after a PV is gone")
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VOLUME\tPOOL\tSIZE\tCLAIM\tPOLICY\tSINCE\tWHY\tREMOVE")
	for _, o := range all {
		verdict := "possible"
		if o.Kept != "" {
			verdict = "kept: " + o.Kept
		}
		show(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Name, o.Pool, contract.Size(o.Bytes), o.Claim, o.ReclaimPolicy,
			o.Since.Format(time.DateTime), o.Why, verdict)
	}
	return table.Flush()
}

// show prints the objects as YAML for kubectl apply.
func (c orphansCommand) show(ctx context.Context, name string) error {
	named, err := c.named(name)
	if err != nil {
		return err
	}
	var objects orphans.Objects
	wanted := orphans.Wanted{Named: named, As: c.as}
	if err := c.ask(ctx, http.MethodPost, agent.OrphansRestoredPath, wanted, &objects); err != nil {
		return err
	}
	for _, note := range objects.Notes {
		show(c.out, "# %s\n", note)
	}
	for i, object := range []any{objects.PV, objects.Claim} {
		if i == 1 && objects.Claim == nil {
			break
		}
		text, err := manifest(object)
		if err != nil {
			return err
		}
		if i > 0 {
			text = "---\n" + text
		}
		if _, err := io.WriteString(c.out, text); err != nil {
			return err
		}
	}
	return nil
}

// manifest returns the object as YAML, without what only the API server writes.
func manifest(object any) (string, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", err
	}
	delete(fields, "status")
	if meta, is := fields["metadata"].(map[string]any); is {
		delete(meta, "creationTimestamp")
	}
	text, err := yaml.Marshal(fields)
	return string(text), err
}

func (c orphansCommand) remove(ctx context.Context, name string) error {
	named, err := c.named(name)
	if err != nil {
		return err
	}
	if err := c.ask(ctx, http.MethodPost, agent.OrphansRemovePath, named, &struct{}{}); err != nil {
		return err
	}
	var kept []recovery.Kept
	err = trashCommand{address: c.address}.ask(ctx, http.MethodGet, agent.TrashPath, nil, &kept)
	at := slices.IndexFunc(kept, func(k recovery.Kept) bool {
		return k.PoolUUID == named.Pool && k.Name == named.Name && k.Created.Equal(named.Created)
	})
	switch {
	case err != nil:
		show(c.out, "removed %s; whether its pool keeps the data is not known: %v\n", name, err)
	case at >= 0:
		show(c.out, "removed %s; its pool keeps the data until %s: hostpath-provisioner trash has the ID, by which trash "+
			"undelete brings it back and trash remove gives its space free\n", name, kept[at].Until.Format(time.DateTime))
	default:
		show(c.out, "removed %s; its space is free once the agent has emptied the trash\n", name)
	}
	return nil
}

// named reads the record of the volume, so that the agent removes the volume that is meant and no
// later one of its name.
func (c orphansCommand) named(name string) (orphans.Named, error) {
	var found []orphans.Named
	var in []string
	var dirs []string
	if c.pool != "" {
		dirs = []string{c.pool}
	}
	shown, beside, err := poolsToInspect(dirs)
	if err != nil {
		return orphans.Named{}, err
	}
	reports, err := inspect.ReadAll(shown, beside)
	for _, r := range reports {
		for _, v := range r.Volumes {
			if v.Name == name {
				found = append(found, orphans.Named{Pool: r.Pool.ID, Name: name, Created: v.Created, Trash: v.Trash})
				in = append(in, r.Pool.Path)
			}
		}
	}
	switch {
	case len(found) == 1 && (err == nil || c.pool != ""):
		return found[0], nil
	case len(found) > 1:
		return orphans.Named{}, fmt.Errorf("%q is a volume of %s: choose one with --pool", name, strings.Join(in, " and of "))
	case err != nil: // a pool that cannot be read may have one too
		return orphans.Named{}, err
	}
	return orphans.Named{}, fmt.Errorf("no pool has a record of a volume %q; it may have been removed", name)
}

// ask sends a request to the agent of this container.
func (c orphansCommand) ask(ctx context.Context, method, path string, body, answer any) error {
	_, err := process{"agent", "--http-address", c.address, 20 * time.Second}.ask(ctx, method, path, body, answer)
	if refused := new(answerError); errors.As(err, &refused) && refused.code == http.StatusNotFound {
		return errors.New("the agent does not check for orphans: without --provision it does not see PVs")
	}
	return err
}
