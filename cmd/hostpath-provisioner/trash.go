package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	agentrecovery "kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

const trashHelp = `hostpath-provisioner trash prints the deleted volumes of this node: those that its pools
keep for --trash-retention, and those whose files are being removed. See docs/undelete.md.

Usage:
  hostpath-provisioner trash [-o json]
  hostpath-provisioner trash plan ID      what becomes of a kept volume, for kubectl hpp undelete
  hostpath-provisioner trash undelete ID  bring a kept volume back; "orphans show VOLUME" then
                                          prints the PV and the claim for it
  hostpath-provisioner trash remove ID    remove a kept volume now, with its data; or those of
                                          --namespace NAMESPACE, or --all

The agent brings back, and removes.

Flags:
%s`

// trashCommand are the settings of the command trash.
type trashCommand struct {
	format, address, namespace string
	all                        bool
	recovery.Options
	out io.Writer
}

// runTrash runs the command trash.
func runTrash(ctx context.Context, args []string, out io.Writer) error {
	c := trashCommand{out: out}
	flags := pflag.NewFlagSet("trash", pflag.ContinueOnError)
	flags.StringVar(&c.address, "http-address", settings.AgentAddress, "address of the agent")
	flags.StringVar(&c.namespace, "namespace", "", "remove: those whose claim was in this namespace")
	flags.BoolVar(&c.all, "all", false, "remove: all that are kept")
	c.AddFlags(flags)
	var err error
	if c.format, err = parse(flags, trashHelp, args, out, "table", "json"); err != nil || c.format == "" {
		return err
	}
	do, id := c.list, flags.Arg(1)
	switch verb := flags.Arg(0); {
	case flags.NArg() == 0:
	case !slices.Contains([]string{"plan", "undelete", "remove"}, verb):
		return agent.Usagef("trash: %q is none of plan, undelete and remove; --help explains them", verb)
	case verb == "remove" && !c.namesWhat(flags.NArg()):
		return agent.Usagef("trash remove: name one ID, or --namespace NAMESPACE, or --all")
	case verb != "remove" && flags.NArg() != 2:
		return agent.Usagef("trash %s: name one ID, as the list prints it", verb)
	case verb == "plan":
		do = func(ctx context.Context) error { return c.plan(ctx, id) }
	case verb == "undelete":
		do = func(ctx context.Context) error { return c.undelete(ctx, id) }
	default:
		do = func(ctx context.Context) error { return c.remove(ctx, id) }
	}
	if err := do(ctx); err != nil {
		return fmt.Errorf("trash: %w", err)
	}
	return nil
}

// noneOf is the error about an ID.
const noneOf = "no pool keeps such a deleted volume; it may be back, or removed"

// namesWhat reports whether one of the three ways to name volumes is used.
func (c trashCommand) namesWhat(arguments int) bool {
	ways := 0
	for _, used := range []bool{arguments == 2, c.namespace != "", c.all} {
		if used {
			ways++
		}
	}
	return ways == 1 && arguments <= 2
}

// deleted are the deleted volumes of a node.
type deleted struct {
	Kept  []recovery.Kept `json:"kept"`
	Going []going         `json:"going"`
}

// going is a deleted volume that is not kept.
type going struct {
	Pool string `json:"pool"` // the path
	inspect.TrashEntry
}

func (c trashCommand) list(ctx context.Context) error {
	all := deleted{Going: []going{}}
	if err := c.ask(ctx, http.MethodGet, agent.TrashPath, nil, &all.Kept); err != nil {
		return err
	}
	shown, beside, err := poolsToInspect(nil)
	if err != nil {
		return err
	}
	reports, unread := inspect.ReadAll(shown, beside)
	all.Kept = withIDs(all.Kept, reports)
	for _, r := range reports {
		for _, e := range r.Trash {
			all.Going = append(all.Going, going{r.Pool.Path, e})
		}
	}
	if c.format == "json" {
		return errors.Join(printJSON(c.out, all), unread)
	}
	return errors.Join(c.printTable(all), unread)
}

// withIDs returns the kept volumes that are on the disk, with their IDs, which the agent returns to no
// one. No two that can be brought back agree in pool, name and time of creation. Those whose records cannot be
// read have neither.
func withIDs(kept []recovery.Kept, reports []inspect.Report) []recovery.Kept {
	type volume struct {
		pool, name string
		created    int64
	}
	ids := map[volume][]string{}
	for _, r := range reports {
		for _, e := range r.Kept {
			of := volume{r.Pool.ID, e.Name, e.Created.UnixNano()}
			ids[of] = append(ids[of], e.ID)
		}
	}
	found := []recovery.Kept{}
	for _, k := range kept {
		of := volume{k.PoolUUID, k.Name, k.Created.UnixNano()}
		if left := ids[of]; len(left) > 0 { // otherwise it is back, or removed, since the agent answered
			k.ID, ids[of] = left[0], left[1:]
			found = append(found, k)
		}
	}
	return found
}

func (c trashCommand) printTable(all deleted) error {
	if len(all.Kept)+len(all.Going) == 0 {
		_, err := fmt.Fprintln(c.out, "no deleted volume is kept, and none is being removed")
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tVOLUME\tPOOL\tSIZE\tCLAIM\tDELETED\tKEPT UNTIL")
	for _, k := range all.Kept {
		until := k.Until.Format(time.DateTime)
		if k.NotOffered != "" {
			until += ", not offered: " + k.NotOffered
		}
		show(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Pool, contract.Size(k.Bytes), k.Namespace+"/"+k.Claim,
			k.Deleted.Format(time.DateTime), until)
	}
	for _, g := range all.Going {
		state := "being removed"
		if g.Stuck != "" {
			state = "stuck: " + g.Stuck
		}
		show(table, "%s\t%s\t%s\t%s\t\t%s\t%s\n", g.ID, g.Name, g.Pool, contract.Size(g.Bytes),
			g.Since.Format(time.DateTime), state)
	}
	return table.Flush()
}

// plan prints the plan of one volume as JSON, as recover prints that of a node.
func (c trashCommand) plan(ctx context.Context, id string) error {
	named, err := c.named(noneOf, func(e inspect.KeptEntry) bool { return e.ID == id })
	if err != nil {
		return err
	}
	var v recovery.Volume
	if err := c.ask(ctx, http.MethodPost, agent.TrashPlanPath, agentrecovery.Request{Named: named[0], Options: c.Options},
		&v); err != nil {
		return err
	}
	return printJSON(c.out, recovery.Plan{Version: recovery.Version, Node: os.Getenv("NODE_NAME"),
		Volumes: []recovery.Volume{v}})
}

func (c trashCommand) undelete(ctx context.Context, id string) error {
	named, err := c.named(noneOf, func(e inspect.KeptEntry) bool { return e.ID == id })
	if err != nil {
		return err
	}
	var back agentrecovery.Undeleted
	if err := c.ask(ctx, http.MethodPost, agent.TrashUndeletePath,
		agentrecovery.Request{Named: named[0], Options: c.Options}, &back); err != nil {
		return err
	}
	if c.format == "json" {
		return printJSON(c.out, back)
	}
	show(c.out, "volume %s is back in %s, with policy Retain: its last one was %s; its PV and claim: "+
		"hostpath-provisioner orphans show %s --pool=%s [--as=NAMESPACE/CLAIM]\n", back.Name, back.Pool, back.Policy,
		back.Name, back.Pool)
	return nil
}

func (c trashCommand) remove(ctx context.Context, id string) error {
	none := noneOf
	switch {
	case c.all:
		none = "no pool keeps a deleted volume"
	case c.namespace != "":
		none = fmt.Sprintf("no pool keeps a deleted volume of namespace %q", c.namespace)
	}
	named, err := c.named(none, func(e inspect.KeptEntry) bool {
		return c.all || e.ID == id || c.namespace != "" && e.Owner.Namespace == c.namespace
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range named {
		err := c.ask(ctx, http.MethodPost, agent.TrashRemovePath, agentrecovery.Request{Named: n}, &struct{}{})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s (%s) stays: %w", n.Trash, n.Name, err))
			continue
		}
		show(c.out, "removed %s (%s); its space is free once the agent has emptied the trash\n", n.Trash, n.Name)
	}
	return errors.Join(errs...)
}

// named reads the records of kept volumes, so that the agent takes those that are meant and no other.
// The error is none if there is none.
func (c trashCommand) named(none string, meant func(inspect.KeptEntry) bool) (all []orphans.Named, err error) {
	shown, beside, err := poolsToInspect(nil)
	if err != nil {
		return nil, err
	}
	reports, err := inspect.ReadAll(shown, beside)
	for _, r := range reports {
		for _, e := range r.Kept {
			if meant(e) {
				all = append(all, orphans.Named{Pool: r.Pool.ID, Name: e.Name, Created: e.Created, Trash: e.ID})
			}
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case err != nil: // a pool that cannot be read may have it
		return nil, err
	}
	return nil, errors.New(none)
}

func (c trashCommand) ask(ctx context.Context, method, path string, body, answer any) error {
	_, err := process{"agent", "--http-address", c.address, 20 * time.Second}.ask(ctx, method, path, body, answer)
	if refused := new(answerError); errors.As(err, &refused) && refused.code == http.StatusNotFound {
		return errors.New("this agent keeps no deleted volumes: a sidecar serves its claims, and it sees no PVs, so " +
			"--trash-retention and undelete are for agents with --provision")
	}
	return err
}
