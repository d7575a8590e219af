package plugin

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) disksCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "disks",
		Aliases: []string{"disk"},
		Short:   "List the raw disks of all nodes, and what is done with each",
		Long: "disks lists the disks that the agents of raw disks offer as PVs, wipe, or refuse.\n\n" +
			"Permissions: list nodes, persistentvolumes, and pods of all namespaces; create pods/exec in the agents'\n" +
			"namespace, without which only disks with PVs are listed and their states are unknown.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.disks(c.Context()) },
	}
}

func (s *session) disks(ctx context.Context) error {
	if err := s.connect("wide", "name"); err != nil {
		return err
	}
	var nodes cluster.List[corev1.Node]
	var pvs cluster.List[corev1.PersistentVolume]
	var found cluster.List[cluster.Agent]
	var listed []agents.Listed[agents.Device]
	why := ""
	cluster.Together(
		func() { nodes = s.reader.Nodes(ctx) },
		func() { pvs = s.reader.PVs(ctx) },
		func() {
			found = s.reader.Agents(ctx)
			found.Items = slices.DeleteFunc(found.Items, func(a cluster.Agent) bool { return a.Process != cluster.DiskAgent })
			var asker agents.Asker
			if asker, why = s.asker(ctx, found.Items); why == "" {
				listed = asker.Devices(ctx, found.Items)
			}
		},
	)
	l := List[fleet.Disk]{Items: fleet.Disks(nodes, listed, pvs, cmp.Or(found.Unknown, why))}
	for _, reason := range []string{nodes.Unknown, pvs.Unknown, found.Unknown, why} {
		if reason != "" {
			l.Unknown = append(l.Unknown, reason)
		}
	}
	l.Missing = diskless(nodes, found, listed)
	none := "there are no agents of raw disks, and no PVs of theirs"
	if len(found.Items) > 0 {
		none = "the agents of raw disks found no disk, and there are no PVs of theirs"
	}
	p := printed{none: none + ": docs/raw-disks.md says how to offer disks", table: diskTable(l.Items)}
	for _, d := range l.Items {
		if d.PV != "" {
			p.names = append(p.names, "persistentvolume/"+d.PV)
		}
	}
	for _, m := range l.Missing {
		addReason(p.table, m, "NODE", "STATE", "WHY")
	}
	return print(s, l, p)
}

// diskless returns the nodes whose disks are not known: those whose agent did not answer, and those
// that name a ConfigMap for their disks and have no agent.
func diskless(nodes cluster.List[corev1.Node], found cluster.List[cluster.Agent],
	listed []agents.Listed[agents.Device]) (all []Missing) {
	for _, l := range listed {
		if l.Problem != "" {
			why := l.Problem
			if !l.Agent.Ready {
				why += "; pod " + l.Agent.Pod + " is not ready: " + l.Agent.Why
			}
			all = append(all, Missing{Node: l.Agent.Node, Why: why})
		}
	}
	if !found.Known() {
		return all
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if fleet.WantsDisks(n) && found.Find(func(a *cluster.Agent) bool { return a.Node == n.Name }) == nil {
			all = append(
				all,
				Missing{Node: n.Name, Why: "no agent of raw disks runs there, and the node names a ConfigMap for one"},
			)
		}
	}
	return all
}

func diskTable(all []fleet.Disk) *view.Table {
	t := &view.Table{Columns: view.Columns("NODE", "DEVICE", "SIZE>", "STATE", "PV", "CLAIM", "+CLASS", "+ID", "?WHY")}
	for _, d := range all {
		state, why := d.State, d.Why
		if d.State == "wiping" && d.WipeBytes > 0 {
			state += " " + view.Bar(d.Wiped+d.Verified, 2*d.WipeBytes)
		}
		if d.Confirm != "" {
			why += "; " + advice.ConfirmDisk(d.Device)
		}
		if d.Unknown != "" {
			why = d.Unknown
		}
		t.Add(d.Node, d.Device.Device, contract.Size(d.Bytes), state, d.PV, d.Claim, d.Class, d.ID, why)
	}
	return t
}
