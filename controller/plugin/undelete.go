package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	kuberecovery "kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// undeleteFlags are the flags of undelete.
type undeleteFlags struct {
	dryRun, yes bool
	kuberecovery.Options
}

func (s *session) undeleteCommand() *cobra.Command {
	var f undeleteFlags
	c := &cobra.Command{
		Use:   "undelete CLAIM|PV|NODE/ID",
		Short: "Bring a deleted volume back, with its claim and PV, while its pool keeps the data",
		Long: "undelete asks the agents for the deleted volumes that their pools keep, and brings one back: that of a claim,\n" +
			"of a PV, or the one with an ID, as kubectl hpp trash lists it. It prints what it makes, or why it leaves the\n" +
			"volume, and asks before it writes. Data moves back in its pool, and PV and claim are made again as recover\n" +
			"does. If it is interrupted, run it again. See docs/undelete.md.\n\n" +
			"It writes with your rights. Apply a plan only if you trust the agents' pods.\n\n" +
			"Permissions: list nodes, csistoragecapacities, and pods and events of all namespaces; create\n" +
			"subjectaccessreviews; create pods/exec in the agents' namespace; get and list persistentvolumes; get\n" +
			"persistentvolumeclaims and namespaces; without --dry-run also create and patch persistentvolumes and\n" +
			"persistentvolumeclaims.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return s.undelete(c.Context(), args[0], f) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the plan, and write nothing")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	f.AddFlags(flags)
	return c
}

func (s *session) undelete(ctx context.Context, target string, f undeleteFlags) error {
	if err := s.connect("wide"); err != nil {
		return err
	}
	r := &recovery.Recovery{Client: s.reader.Client, Options: f.Options}
	of, l := s.recovering(ctx, r, recoverFlags{})
	asker, why := s.asker(ctx, of)
	if why != "" {
		return errors.New(why)
	}
	asker.Timeout = max(asker.Timeout, planWithin)
	found, missing := s.kept(ctx, asker, of, target)
	l.Missing = append(l.Missing, missing...)
	var err error
	switch {
	case len(found) > 1:
		return s.generations(found, l.Missing)
	case len(found) == 1 && len(l.Missing) > 0 && !strings.Contains(target, "/"):
		return fmt.Errorf("node %s did not answer, and may keep another volume of that name: %s; name the one that is "+
			"meant: kubectl hpp undelete %s", l.Missing[0].Node, l.Missing[0].Why, found[0].handle())
	case len(found) == 1:
		l.Items, err = s.keptPlan(ctx, asker, r, found[0])
	default:
		l.Items, err = s.cameBack(ctx, r, of, target, f.Options)
	}
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		return s.notKept(target, l)
	}
	whole := l.Items[0].Verdict == kuberecovery.Made
	if f.dryRun || !whole {
		return printRecovery(s, l, whole || f.dryRun)
	}
	if !f.yes {
		if err := s.confirm(ctx, l, "undelete", "Bring this volume back?"); err != nil {
			return err
		}
	}
	return s.bringBack(ctx, asker, r, of, l)
}

// bringBack has the agent move the data back, and writes the objects.
func (s *session) bringBack(ctx context.Context, asker agents.Asker, r *recovery.Recovery, of []cluster.Agent,
	l List[*recovery.Volume]) error {
	it := l.Items[0]
	if it.Kept != "" {
		if err := asker.Undelete(ctx, it.Agent(), it.Kept, r.Options); err != nil {
			it.Failed = err.Error()
			return printRecovery(s, l, false)
		}
		it.Kept = "" // it is in place now, as any volume whose objects are made again
	}
	s.apply(ctx, r, l.Items, func(ctx context.Context) []agents.Planned {
		again, _ := s.plans(ctx, []cluster.Agent{it.Agent()}, r.Options)
		return again
	})
	return printRecovery(s, l, it.Failed == "")
}

// keptVolume is a deleted volume that an agent keeps.
type keptVolume struct {
	agent cluster.Agent
	kuberecovery.Kept
}

func (k keptVolume) handle() string { return k.agent.Node + "/" + k.ID }

// kept returns the deleted volumes that a name may mean, the last deleted one first, and which agents
// did not answer.
func (s *session) kept(ctx context.Context, asker agents.Asker, of []cluster.Agent, target string) (found []keptVolume,
	missing []Missing) {
	seen := map[string]bool{} // an agent that is being replaced has the same
	for _, l := range asker.Kept(ctx, of) {
		if l.Problem != "" {
			missing = append(missing, Missing{Node: l.Agent.Node, Why: l.Problem})
		}
		for _, k := range l.Items {
			it := keptVolume{l.Agent, k}
			if s.means(target, it.handle(), k.Namespace, k.Claim, k.PV, k.Name) && !seen[it.handle()] {
				seen[it.handle()] = true
				found = append(found, it)
			}
		}
	}
	slices.SortFunc(found, func(a, b keptVolume) int { return b.Deleted.Compare(a.Deleted) })
	return found, missing
}

// means reports whether a name is that of a volume: its node and ID, its PV or directory, or its claim in
// the user's namespace.
func (s *session) means(target, handle, namespace, claim, pv, name string) bool {
	return target != "" && (target == handle || target == pv || target == name ||
		target == claim && namespace == s.namespace)
}

// generations lists the volumes of one name, of which the user names one.
func (s *session) generations(found []keptVolume, missing []Missing) error {
	p := printed{table: &view.Table{Columns: view.Columns("NODE/ID", "NAMESPACE", "CLAIM", "SIZE>", "CREATED>", "DELETED>",
		"+PV", "+POOL", "?WHY")}}
	l := List[kuberecovery.Kept]{Missing: missing}
	for _, k := range found {
		l.Items = append(l.Items, k.Kept)
		p.table.Add(k.handle(), k.Namespace, k.Claim, contract.Size(k.Bytes), s.ago(k.Created), s.ago(k.Deleted), k.PV, k.Pool,
			k.NotOffered)
	}
	for _, m := range missing {
		addReason(p.table, m, "NODE/ID", "CLAIM", "WHY")
	}
	if err := print(s, l, p); err != nil {
		return err
	}
	return fmt.Errorf("%d deleted volumes have that name: name one by its node and ID, such as kubectl hpp undelete %s",
		len(found), found[0].handle())
}

// keptPlan returns what becomes of a deleted volume.
func (s *session) keptPlan(ctx context.Context, asker agents.Asker, r *recovery.Recovery,
	k keptVolume) ([]*recovery.Volume, error) {
	plan := asker.KeptPlan(ctx, k.agent, k.ID, r.Options)
	if plan.Problem != "" {
		return nil, errors.New(plan.Problem)
	}
	if len(plan.Volumes) != 1 || plan.Volumes[0].Kept != k.ID {
		return nil, fmt.Errorf("the agent of node %s has no plan for %s", k.agent.Node, k.ID)
	}
	all, err := r.Decide(ctx, []agents.Planned{plan})
	if err == nil && len(all) == 1 && all[0].Verdict == kuberecovery.Left {
		s.freeName(ctx, r, all[0])
	}
	return all, err
}

// freeName adds what to do about a claim of the volume's name that has another volume.
func (s *session) freeName(ctx context.Context, r *recovery.Recovery, it *recovery.Volume) {
	claim, err := live.NamedClaim(ctx, r.Client, r.Target(it.Volume), it.Claim)
	if err != nil || claim == nil || claim.Spec.VolumeName == "" || claim.Spec.VolumeName == it.PVName {
		return
	}
	pv, err := live.PV(ctx, r.Client, claim.Spec.VolumeName)
	if err != nil {
		pv = nil
	}
	it.Why += "; " + advice.FreeName(claim, pv)
}

// cameBack returns the volume in place that a name means, if its PV or claim is missing: an interrupted
// call has brought it back.
func (s *session) cameBack(ctx context.Context, r *recovery.Recovery, of []cluster.Agent, target string,
	o kuberecovery.Options) ([]*recovery.Volume, error) {
	plans, _ := s.plans(ctx, of, o)
	if len(plans) == 0 {
		return nil, nil
	}
	for i := range plans {
		p := &plans[i]
		p.Pools = nil // PVs without a volume are for recover
		p.Volumes = slices.DeleteFunc(p.Volumes, func(v kuberecovery.Volume) bool {
			return !s.means(target, "", v.Namespace, v.Claim, v.PVName, v.Name)
		})
	}
	all, err := r.Decide(ctx, plans)
	if len(all) > 1 {
		return nil, fmt.Errorf("%d volumes in place have that name: kubectl hpp recover makes their objects", len(all))
	}
	return all, err
}

// notKept says that no agent keeps the volume, and which agents did not answer.
func (s *session) notKept(target string, l List[*recovery.Volume]) error {
	text := fmt.Sprintf("no agent keeps a deleted volume of %q in namespace %s, of a PV or node and ID of that name: its "+
		"time may be over (--trash-retention), or its space was needed, or an interrupted call brought it back under "+
		"another ID: kubectl hpp trash lists what is kept, and kubectl hpp recover makes what a volume in place lacks",
		target, s.namespace)
	switch {
	case len(l.Unknown) > 0:
		return fmt.Errorf("whether an agent keeps a deleted volume of %q is not known: %s", target,
			strings.Join(l.Unknown, "; "))
	case len(l.Missing) == 0:
		return errors.New(text)
	}
	fmt.Fprintln(s.ErrOut, text+". Not all agents answered.")
	return printRecovery(s, l, false)
}
