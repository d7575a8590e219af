package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	agentrecovery "kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

const recoverHelp = `hostpath-provisioner recover prints what brings the PVs and claims of this node's volumes
back, after the cluster lost them and its disks did not. It changes nothing: kubectl hpp
recover applies the plans of all nodes. See docs/recover.md.

Usage:
  hostpath-provisioner recover            a line for each volume: made, already there, or left
  hostpath-provisioner recover -o yaml    the objects of those that are made, for kubectl apply
  hostpath-provisioner recover -o json    the plan, for kubectl hpp recover

Flags:
%s`

// recoverCommand are the settings of the command recover.
type recoverCommand struct {
	address string
	recovery.Options
	out io.Writer
}

// runRecover runs the command recover.
func runRecover(ctx context.Context, args []string, out io.Writer) error {
	c := recoverCommand{out: out}
	flags := pflag.NewFlagSet("recover", pflag.ContinueOnError)
	flags.StringVar(&c.address, "http-address", settings.AgentAddress, "address of the agent")
	c.AddFlags(flags)
	format, err := parse(flags, recoverHelp, args, out, "table", "json", "yaml")
	switch {
	case err != nil || format == "":
		return err
	case flags.NArg() > 0:
		return agent.Usagef("recover: unexpected argument %q; --help explains the command", flags.Arg(0))
	}
	plan, err := c.plan(ctx)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if format == "json" {
		return printJSON(out, plan) // kubectl hpp has the volumes of all nodes
	}
	together := make([]recovery.OnNode, len(plan.Volumes))
	for i := range plan.Volumes {
		together[i] = recovery.OnNode{Node: plan.Node, Volume: &plan.Volumes[i]}
	}
	if recovery.Together(together, c.Options); format == "yaml" {
		return c.printObjects(plan)
	}
	return c.printTable(plan)
}

// plan asks the agent about each record, and adds what has none.
func (c recoverCommand) plan(ctx context.Context) (recovery.Plan, error) {
	p := recovery.Plan{Version: recovery.Version, Node: os.Getenv("NODE_NAME")}
	shown, beside, err := poolsToInspect(nil)
	if err != nil {
		return p, err
	}
	reports, err := inspect.ReadAll(shown, beside)
	if err != nil {
		p.Unread = append(p.Unread, err.Error())
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for _, r := range reports {
		volumes := make([]recovery.Volume, len(r.Volumes))
		for i, v := range r.Volumes {
			slots <- struct{}{}
			all.Go(func() {
				volumes[i] = c.volume(ctx, r, v)
				<-slots
			})
		}
		all.Wait()
		p.Pools = append(p.Pools, r.Pool.ID)
		p.Volumes = append(p.Volumes, volumes...)
		for _, damage := range r.Damaged {
			p.Volumes = append(p.Volumes, unplanned(r, "", damage))
		}
		for _, u := range r.Unrecorded {
			p.Volumes = append(p.Volumes, unplanned(r, u.Name, "a directory without a record"))
		}
	}
	if slices.ContainsFunc(p.Volumes, func(v recovery.Volume) bool { return v.Problem == errNoPVs.Error() }) {
		return p, errNoPVs
	}
	return p, nil
}

// askedAtOnce is how many volumes the agent is asked about at the same time: each costs it some
// requests to the API server.
const askedAtOnce = 8

// volume asks the agent about one record. Without an answer the volume is left.
func (c recoverCommand) volume(ctx context.Context, r inspect.Report, v inspect.Volume) recovery.Volume {
	answer, err := c.ask(ctx, agentrecovery.Request{Options: c.Options,
		Named: orphans.Named{Pool: r.Pool.ID, Name: v.Name, Created: v.Created, Trash: v.Trash}})
	if err == nil {
		return answer
	}
	left := unplanned(r, v.Name, err.Error())
	left.PVName, left.Namespace, left.Claim = v.PV, v.Owner.Namespace, v.Owner.Name
	return left
}

// unplanned is what is left of a pool without the agent's answer.
func unplanned(r inspect.Report, name, why string) recovery.Volume {
	return recovery.Volume{Pool: r.Pool.Path, PoolUUID: r.Pool.ID, Name: name, Problem: why,
		Finding: recovery.Finding{Verdict: recovery.Left, Why: why}}
}

// errNoPVs is the answer of the sidecar form.
var errNoPVs = errors.New("this agent sees no PVs, because a sidecar serves its claims: make PVs and claims by hand " +
	"from what inspect prints, or run an agent with --provision on these pools")

func (c recoverCommand) ask(ctx context.Context, of agentrecovery.Request) (v recovery.Volume, err error) {
	p := process{"agent", "--http-address", c.address, 20 * time.Second}
	_, err = p.ask(ctx, http.MethodPost, agent.RecoverPath, of, &v)
	if refused := new(answerError); errors.As(err, &refused) && refused.code == http.StatusNotFound {
		return v, errNoPVs
	}
	return v, err
}

func (c recoverCommand) printTable(p recovery.Plan) error {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VOLUME\tPOOL\tCLAIM\tPLAN\tWHY")
	for _, v := range p.Volumes {
		claim := ""
		if v.Claim != "" {
			claim = c.Target(v) + "/" + v.Claim
		}
		show(table, "%s\t%s\t%s\t%s\t%s\n", v.Name, v.Pool, claim, v.Verdict, v.Reason())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(p.Unread) > 0 {
		return fmt.Errorf("recover: the plan is not complete: %s", p.Unread[0])
	}
	return nil
}

// printObjects prints the claims and PVs that are made, the claim first.
func (c recoverCommand) printObjects(p recovery.Plan) error {
	for _, v := range p.Volumes {
		if v.Verdict != recovery.Made {
			show(c.out, "# %s %s: %s%s\n", v.Pool, v.Name, v.Verdict, prefixed(": ", v.Why))
			continue
		}
		for _, note := range v.Notes {
			show(c.out, "# %s\n", note)
		}
		var objects []any
		if v.ClaimWrite == recovery.CreateClaim && v.Objects != nil {
			objects = append(objects, v.Objects.Claim)
		}
		if v.ClaimWrite == recovery.NameVolume {
			show(c.out, "# claim %s/%s waits: kubectl -n %s patch pvc %s -p '{\"spec\":{\"volumeName\":\"%s\"}}'\n",
				c.Target(v), v.Claim, c.Target(v), v.Claim, v.PVName)
		}
		if v.PVWrite && v.Objects != nil {
			objects = append(objects, v.Objects.PV)
		}
		for _, object := range objects {
			text, err := manifest(object)
			if err == nil {
				_, err = io.WriteString(c.out, "---\n"+text)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
