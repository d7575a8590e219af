package plugin

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

func (s *session) orphansCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "orphans",
		Aliases: []string{"orphan"},
		Short:   "List volumes whose PV is gone, and directories without a record",
		Long: "orphans lists the volumes of all nodes whose PV is gone, and why the agent of the node would keep each,\n" +
			"and directories of pools that have no record. An administrator brings a volume back, or removes it, on its\n" +
			"node: see docs/operations.md.\n\n" +
			"Permissions: list nodes, persistentvolumes, csistoragecapacities, and pods and events of all namespaces;\n" +
			"create pods/exec in the agents' namespace.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.orphans(c.Context()) },
	}
}

// Orphan is a volume whose PV is gone, or a directory without a record.
type Orphan struct {
	Node string `json:"node"`
	agents.Orphan
	// Unrecorded is set for a directory without a record, of which only the name is known.
	Unrecorded bool `json:"unrecorded,omitempty"`
}

func (s *session) orphans(ctx context.Context) error {
	if err := s.connect("wide", "name"); err != nil {
		return err
	}
	var (
		f     fleet.Facts
		nodes []fleet.Node
		pvs   cluster.List[corev1.PersistentVolume]
	)
	cluster.Together(func() { f, nodes = s.fleet(ctx) }, func() { pvs = s.reader.PVs(ctx) })
	named := namedByPVs(pvs.Items)
	found, noted := s.orphansOf(ctx, answering(f.Pools))
	l := List[Orphan]{Unknown: unknowns(&f), Missing: missing(nodes, &f)}
	for _, n := range nodes {
		l.Items = append(l.Items, orphansOn(n, found[n.Name], named, pvs.Unknown)...)
		if why := noted[n.Name]; why != "" && len(n.Pools) > 0 {
			l.Missing = append(l.Missing, Missing{Node: n.Name, Why: "older than the agent's last check: " + why})
		}
	}
	p := printed{
		none: "there are no orphans",
		table: &view.Table{Columns: view.Columns("NODE", "VOLUME", "SIZE>", "CLAIM", "POLICY", "SINCE>", "+POOL", "+PV",
			"?REMOVE", "WHY")},
	}
	for _, o := range l.Items {
		size, since, verdict := contract.Size(o.Bytes), s.ago(o.Since), "possible"
		if o.Unrecorded {
			size, since, verdict = "unknown", "", "by hand"
		}
		if o.Kept != "" {
			verdict = "kept: " + o.Kept
		}
		p.names = append(p.names, o.Node+"/"+o.Name)
		p.table.Add(o.Node, o.Name, size, o.Claim, o.ReclaimPolicy, since, o.Pool, o.PV, verdict, o.Why)
	}
	for _, m := range l.Missing {
		addReason(p.table, m, "NODE", "VOLUME", "WHY")
	}
	return print(s, l, p)
}

// answering returns the agents that answered: to ask the others again would cost the timeout twice.
func answering(pools []agents.Pools) (all []cluster.Agent) {
	for _, p := range pools {
		if p.Problem == "" || len(p.Reports) > 0 {
			all = append(all, p.Agent)
		}
	}
	return all
}

// orphansOf asks the agents for their orphans. It returns the answers by node, and why the agent of
// a node did not answer.
func (s *session) orphansOf(ctx context.Context, of []cluster.Agent) (found map[string][]agents.Orphan,
	noted map[string]string) {
	found, noted = map[string][]agents.Orphan{}, map[string]string{}
	asker, why := s.asker(ctx, of)
	if why != "" {
		return found, noted // it is unknown of the pools, too
	}
	for _, l := range asker.Orphans(ctx, of) {
		found[l.Agent.Node] = append(found[l.Agent.Node], l.Items...)
		if l.Problem != "" {
			noted[l.Agent.Node] = l.Problem
		}
	}
	return found, noted
}

// namedByPVs returns what could be the name of a PV's directory, whatever its kind, path or node,
// with the PV.
func namedByPVs(pvs []corev1.PersistentVolume) map[string]string {
	named := make(map[string]string, 4*len(pvs))
	for i := range pvs {
		pv := &pvs[i]
		for name := range strings.SplitSeq(contract.DirectoryOf(pv), "/") {
			named[name] = pv.Name
		}
		if pv.Spec.CSI != nil {
			named[pv.Spec.CSI.VolumeHandle] = pv.Name
		}
	}
	for i := range pvs {
		named[pvs[i].Name] = pvs[i].Name
	}
	delete(named, "") // before the first slash of a path
	return named
}

// keptFor returns why a directory without a record is not to be removed, "" if no PV could name it.
// It may be the volume of another provisioner, or of one that the agent has not adopted.
func keptFor(directory string, named map[string]string, unknown string) string {
	of, _ := contract.Provisioned(directory)
	switch pv := cmp.Or(named[directory], named[of]); {
	case pv != "":
		return "PV " + pv + " may name it"
	case unknown != "":
		return "unknown: whether a PV names it: " + unknown
	}
	return ""
}

// orphansOn returns the orphans of a node: those that its agent reports, and what else its pools
// have. named are the directories of PVs, which may be incomplete if unknown is not "".
func orphansOn(n fleet.Node, reported []agents.Orphan, named map[string]string, unknown string) (all []Orphan) {
	known := map[string]bool{}
	for _, o := range reported {
		known[o.Pool+"/"+o.Name] = true
		all = append(all, Orphan{Node: n.Name, Orphan: o})
	}
	for _, p := range n.Pools {
		for _, v := range p.Report.Volumes {
			if v.Orphan.Why != "" && !v.Ephemeral && !known[p.Path+"/"+v.Name] {
				all = append(all, Orphan{Node: n.Name, Orphan: noted(p.Path, v)})
			}
		}
		for _, u := range p.Report.Unrecorded {
			all = append(all, Orphan{Node: n.Name, Unrecorded: true,
				Orphan: agents.Orphan{Pool: p.Path, Name: u.Name, Why: "a directory without a record",
					Kept: keptFor(u.Name, named, unknown)}})
		}
	}
	return all
}

// noted returns an orphan as its record has it.
func noted(pool string, v inspect.Volume) agents.Orphan {
	o := agents.Orphan{Pool: pool, Name: v.Name, Bytes: v.Bytes, PV: v.PV, ReclaimPolicy: v.ReclaimPolicy,
		Since: v.Orphan.Since, Why: v.Orphan.Why, Kept: "unknown: the agent was not asked, or did not answer"}
	if v.Owner.Name != "" {
		o.Claim = v.Owner.Namespace + "/" + v.Owner.Name
	}
	return o
}
