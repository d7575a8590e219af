package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	kuberecovery "kubevirt.io/hostpath-provisioner/controller/kube/recovery"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

const (
	// planWithin is how long an agent may take to plan: it reads the objects of each of its volumes.
	planWithin = 5 * time.Minute
	// boundWithin is how long the controller-manager may take to bind, and recordedWithin how long the
	// agents may take to record that: they check a migration that began in another cluster less often.
	boundWithin    = 2 * time.Minute
	recordedWithin = 2 * time.Minute
)

// recoverFlags are the flags of recover.
type recoverFlags struct {
	all, dryRun, yes bool
	node             string
	kuberecovery.Options
}

func (s *session) recoverCommand() *cobra.Command {
	var f recoverFlags
	c := &cobra.Command{
		Use:   "recover --all|--node NODE",
		Short: "Make the PVs and claims of volumes again that the cluster lost, and its disks did not",
		Long: "recover asks the agents for their volumes, and makes what is missing of each PV and its claim: " +
			"for a cluster\n" +
			"that was built again on its disks, or whose etcd was restored from an older backup. It prints what it makes,\n" +
			"what is there already, and what it leaves and why, and asks before it writes. It deletes and overwrites\n" +
			"nothing; if it is interrupted, run it again. Run it before workloads start: see docs/recover.md.\n\n" +
			"It writes with your rights. Apply a plan only if you trust the agents' pods.\n\n" +
			"Permissions: list nodes, csistoragecapacities, and pods and events of all namespaces; create\n" +
			"subjectaccessreviews; create pods/exec in the agents' namespace; get and list persistentvolumes; get\n" +
			"persistentvolumeclaims and namespaces; without --dry-run also create and patch persistentvolumes and\n" +
			"persistentvolumeclaims.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.recover(c.Context(), f) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.all, "all", false, "recover the volumes of all nodes")
	flags.StringVar(&f.node, "node", "", "recover those of this node")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the plan, and write nothing")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	f.AddFlags(flags)
	return c
}

// check returns an error unless the flags say which volumes are meant.
func (f recoverFlags) check(namespace string) error {
	switch {
	case f.all == (f.node != ""):
		return errors.New("name the volumes that are meant: --all, or --node NODE")
	case f.ToNamespace != "" && namespace == "":
		return errors.New("--to-namespace is for the volumes of one namespace: name it with -n")
	}
	return nil
}

func (s *session) recover(ctx context.Context, f recoverFlags) error {
	namespace := ""
	if s.config.Namespace != nil {
		namespace = *s.config.Namespace // that of the context is not meant
	}
	if err := f.check(namespace); err != nil {
		return err
	}
	if err := s.connect("wide"); err != nil {
		return err
	}
	r := &recovery.Recovery{Client: s.reader.Client, Options: f.Options, Namespace: namespace}
	of, l := s.recovering(ctx, r, f)
	plans, missing := s.plans(ctx, of, f.Options)
	l.Missing = append(l.Missing, missing...)
	if len(plans) > 0 {
		var err error
		if l.Items, err = r.Decide(ctx, plans); err != nil {
			return err
		}
	}
	todo := writes(l.Items)
	switch {
	case f.dryRun || !todo && !slices.ContainsFunc(l.Items,
		func(v *recovery.Volume) bool { return v.Verdict == kuberecovery.There }):
		return printRecovery(s, l, len(l.Missing) == 0 && len(l.Unknown) == 0)
	case todo && !f.yes:
		made := 0
		for _, v := range l.Items {
			if v.Verdict == kuberecovery.Made {
				made++
			}
		}
		if err := s.confirm(ctx, l, "recover", fmt.Sprintf("Make the PVs and claims of %d volumes?", made)); err != nil {
			return err
		}
	}
	s.apply(ctx, r, l.Items, func(ctx context.Context) []agents.Planned {
		again, _ := s.plans(ctx, of, f.Options)
		return again
	})
	whole := len(l.Missing) == 0 && len(l.Unknown) == 0 && !slices.ContainsFunc(l.Items, func(v *recovery.Volume) bool { return v.Failed != "" })
	return printRecovery(s, l, whole)
}

// writes reports whether a volume is made.
func writes(all []*recovery.Volume) bool {
	return slices.ContainsFunc(all, func(v *recovery.Volume) bool { return v.Verdict == kuberecovery.Made })
}

// recovering returns the agents that are asked, and a list that says which nodes are not.
func (s *session) recovering(ctx context.Context, r *recovery.Recovery, f recoverFlags) (of []cluster.Agent,
	l List[*recovery.Volume]) {
	agents, nodes := s.reader.Agents(ctx), s.reader.Nodes(ctx)
	for _, why := range []string{agents.Unknown, nodes.Unknown} {
		if why != "" {
			l.Unknown = append(l.Unknown, why)
		}
	}
	asked := map[string]bool{}
	for _, a := range agents.Items {
		if a.Process != cluster.NodeAgent || f.node != "" && a.Node != f.node {
			continue
		}
		asked[a.Node] = true
		why := r.Trusted(ctx, a)
		if a.Sidecar {
			why = "a sidecar serves the claims of its agent, which sees no PVs: see docs/recover.md"
		}
		if why != "" {
			l.Missing = append(l.Missing, Missing{Node: a.Node, Why: why})
			continue
		}
		of = append(of, a)
	}
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; !asked[name] && f.all && agents.Known() {
			l.Missing = append(l.Missing, Missing{Node: name, Why: "no agent runs there"})
		}
	}
	if f.node != "" && !asked[f.node] && agents.Known() {
		l.Missing = append(l.Missing, Missing{Node: f.node, Why: "no agent runs there"})
	}
	return of, l
}

// plans asks agents for their plans, and returns which did not answer, or not completely.
func (s *session) plans(ctx context.Context, of []cluster.Agent, o kuberecovery.Options) (all []agents.Planned,
	missing []Missing) {
	asker, why := s.asker(ctx, of)
	if why != "" {
		for _, a := range of {
			missing = append(missing, Missing{Node: a.Node, Why: why})
		}
		return nil, missing
	}
	asker.Timeout = max(asker.Timeout, planWithin)
	for _, p := range asker.Plans(ctx, of, o) {
		if p.Problem != "" {
			missing = append(missing, Missing{Node: p.Agent.Node, Why: p.Problem})
			continue
		}
		for _, why := range p.Unread {
			missing = append(missing, Missing{Node: p.Agent.Node, Why: why})
		}
		all = append(all, p)
	}
	return all, missing
}

// confirm prints the plan of a command and asks. The error says how to go on without a person.
func (s *session) confirm(ctx context.Context, l List[*recovery.Volume], command, question string) error {
	in, ok := s.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || s.isData() {
		return errors.New(command + " writes: see the plan with --dry-run, and use --yes if no one can be asked")
	}
	if err := printRecovery(s, l, true); err != nil {
		return err
	}
	fmt.Fprintf(s.ErrOut, "%s [y/N] ", question)
	var line string
	var err error
	read := make(chan struct{})
	go func() { // it ends with the program, if no one answers
		line, err = bufio.NewReader(in).ReadString('\n')
		close(read)
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("nothing was written: %w", ctx.Err())
	case <-read:
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.Join(errors.New("nothing was written"), err)
	}
	return nil
}

// apply writes, waits, and gives PVs their policies back.
func (s *session) apply(ctx context.Context, r *recovery.Recovery, all []*recovery.Volume,
	ask func(context.Context) []agents.Planned) {
	r.Apply(ctx, all)
	wait, cancel := context.WithTimeout(ctx, boundWithin)
	r.Wait(wait, all)
	cancel()
	wait, cancel = context.WithTimeout(ctx, recordedWithin)
	defer cancel()
	if n := r.Policies(wait, all, ask); n > 0 {
		fmt.Fprintf(s.ErrOut, "%d PVs keep the policy Retain until their agents have recorded the claims: run "+
			"recover again\n", n)
	}
}

// printRecovery prints the volumes. The error is quiet, for the code of the program, if not all of it
// is as its user wants.
func printRecovery(s *session, l List[*recovery.Volume], whole bool) error {
	p := printed{none: "no agent has a volume",
		table: &view.Table{Columns: view.Columns("NODE", "NAMESPACE", "CLAIM", "?TO", "SIZE>", "+PV", "+POOL", "VOLUME",
			"PLAN", "?WHY")}}
	for _, v := range l.Items {
		plan, why := string(v.Verdict), v.Reason()
		switch {
		case v.Failed != "":
			plan, why = "failed", v.Failed
		case v.Bound:
			plan = "bound"
		}
		size := ""
		if v.Bytes > 0 {
			size = contract.Size(v.Bytes)
		}
		p.table.Add(v.Node, v.Namespace, v.Claim, v.To, size, v.PVName, v.Pool, v.Name, plan, why)
	}
	for _, m := range l.Missing {
		addReason(p.table, m, "NODE", "PLAN", "WHY")
	}
	if err := print(s, l, p); err != nil || whole {
		return err
	}
	return errQuiet
}
