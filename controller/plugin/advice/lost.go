package advice

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Loss is what was read about a claim whose PV does not exist.
type Loss struct {
	Claim *corev1.PersistentVolumeClaim
	// Provisioner is that of the claim's class, and Pool the one that the class names; "" if there is
	// none, or it is not known.
	Provisioner, Pool string
	// ClassSince is when the class was created. One that was made again may have named another pool before.
	ClassSince metav1.Time
	Nodes      cluster.List[corev1.Node]
	Agents     cluster.List[cluster.Agent]
	// Pools are those of all agents. NoPools says why they are not known.
	Pools   []agents.Pools
	NoPools string
}

// Place is where data of the claim is.
type Place struct {
	Agent cluster.Agent
	Pool  inspect.Pool
	// Volume is its record, or has the name alone.
	Volume inspect.Volume
	// Trash is set for a deleted volume, whose directory the agent has not removed yet, Kept for one that
	// its pool keeps, with Volume.Name as its ID, and Unrecorded for a directory without a record.
	Trash, Kept, Unrecorded bool
}

// Places returns where the agents report data of the claim: in place, set aside, orphaned, in the
// trash, or in a directory without a record.
func (l Loss) Places() (all []Place) {
	pv, uid := l.Claim.Spec.VolumeName, string(l.Claim.UID)
	for _, p := range l.Pools {
		for _, r := range p.Reports {
			for _, v := range r.Volumes {
				if !v.Ephemeral && (v.PV == pv || v.Name == pv || uid != "" && v.Owner.UID == uid) {
					all = append(all, Place{Agent: p.Agent, Pool: r.Pool, Volume: v})
				}
			}
			for _, u := range r.Unrecorded {
				if names(u.Name, pv, uid) {
					all = append(all, Place{Agent: p.Agent, Pool: r.Pool, Volume: inspect.Volume{Name: u.Name},
						Unrecorded: true})
				}
			}
			for _, k := range r.Kept {
				if k.PV == pv || k.Name == pv || uid != "" && k.Owner.UID == uid {
					all = append(all, Place{Agent: p.Agent, Pool: r.Pool, Volume: inspect.Volume{Name: k.ID}, Kept: true})
				}
			}
			for _, t := range r.Trash {
				if names(t.ID, pv, uid) || names(t.Name, pv, uid) {
					all = append(all, Place{Agent: p.Agent, Pool: r.Pool, Volume: inspect.Volume{Name: t.ID},
						Trash: true})
				}
			}
		}
	}
	return all
}

// names reports whether the name of a directory is that of the claim's volume: provisioners take it
// from the PV or the claim's UID, some with a prefix.
func names(directory, pv, uid string) bool {
	return pv != "" && strings.Contains(directory, pv) || uid != "" && strings.Contains(directory, uid)
}

// Kept returns where pools keep deleted volumes of the claims with that name.
func Kept(pools []agents.Pools, namespace, name string) (all []Place) {
	for _, p := range pools {
		for _, r := range p.Reports {
			for _, k := range r.Kept {
				if k.Owner.Namespace == namespace && k.Owner.Name == name {
					all = append(all, Place{Agent: p.Agent, Pool: r.Pool, Volume: inspect.Volume{Name: k.ID}, Kept: true})
				}
			}
		}
	}
	return all
}

// isID reports whether a text is an ID as pools give them. People paste it into a shell, and any pod that
// looks like an agent's may print another.
func isID(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// What describes the place.
func (p Place) What() string {
	at := fmt.Sprintf("%s of %s on node %s", p.Volume.Name, p.Pool.Path, p.Agent.Node)
	switch {
	case p.Kept:
		return "its volume was deleted, and the pool keeps the data: " + at
	case p.Trash:
		return "its volume was deleted, and its files are in the trash until the agent has removed them: " + at
	case p.migrates():
		return "the agent is replacing its PV; the data is in directory " + at
	case aside(p.Volume):
		return "its volume is set aside in the trash, and its deletion is not decided: volume " + at
	case p.Volume.Missing:
		return "its volume has a record and no directory: volume " + at
	}
	return "its data is there: directory " + at
}

func (p Place) migrates() bool {
	m := p.Volume.Migration
	return m != nil && m.Step != record.MigrationDone
}

// Do says what to do about the data at the place. It never gives the data up.
func (p Place) Do() string {
	switch {
	case p.Kept && !isID(p.Volume.Name):
		return "an administrator looks at what kubectl hpp trash lists"
	case p.Kept:
		return "an administrator brings it back: kubectl hpp undelete " + p.Agent.Node + "/" + p.Volume.Name
	case p.Trash:
		return ""
	case p.migrates() && p.Volume.Migration.Stopped != "":
		return "remove the cause, and the agent creates the PV: see docs/migration.md: " + p.Volume.Migration.Stopped
	case p.migrates():
		return "wait: the agent creates the PV, and the claim is then Bound"
	case p.Volume.Missing && !aside(p.Volume):
		return "an administrator restores the directory from a backup: see docs/runbooks/HPPVolumesMissing.md"
	case p.Unrecorded:
		return "an administrator makes a PV for the directory: see docs/operations.md"
	}
	if !Pasteable(p.Volume.Name) {
		return "an administrator looks at what kubectl hpp orphans lists"
	}
	return fmt.Sprintf("an administrator applies the PV that this prints: kubectl -n %s exec %s -c %s -- "+
		"/hostpath-provisioner orphans show %s", p.Agent.Namespace, p.Agent.Pod, p.Agent.Container, p.Volume.Name)
}

// GiveUp is what to do if no data was found. It asks for the deletion of the claim only if it is
// proven that there is none.
func (l Loss) GiveUp() string {
	if why := l.Unproven(); why != "" {
		return "restore the PV from a backup. The data may still exist: ask an administrator before you delete it (" +
			why + ")"
	}
	return "restore PV and data from a backup, or delete the claim and create it again for a new, empty volume"
}

// Unproven says why it is not proven that no node has data of the claim, "" if it is: every Node has
// a ready agent of the provisioner, each agent reported all its pools, all are open and without a
// damaged record, and the claim's node is still the one that it was made on.
func (l Loss) Unproven() string {
	switch {
	case l.NoPools != "":
		return l.NoPools
	case !l.Nodes.Known():
		return l.Nodes.Unknown
	case !l.Agents.Known():
		return l.Agents.Unknown
	case l.Provisioner == "":
		return "the provisioner of its class is not known"
	case l.ClassSince.After(l.Claim.CreationTimestamp.Time):
		return "its class was created after the claim: the one before may have named another provisioner or pool"
	case len(l.Places()) > 0:
		return "an agent reports data of the claim"
	}
	if why := l.node(); why != "" {
		return why
	}
	for _, a := range l.Agents.Items {
		if a.Process == cluster.NodeAgent && !slices.ContainsFunc(l.Pools, func(p agents.Pools) bool {
			return p.Agent.Namespace == a.Namespace && p.Agent.Pod == a.Pod
		}) {
			return "the agent of node " + a.Node + " was not asked"
		}
	}
	for _, p := range l.Pools {
		if why := unread(p); why != "" {
			return "node " + p.Agent.Node + ": " + why
		}
	}
	for _, n := range l.Nodes.Items {
		if l.Agents.Find(func(a *cluster.Agent) bool {
			return a.Node == n.Name && a.Process == cluster.NodeAgent && a.Ready && a.Serves(l.Provisioner)
		}) == nil {
			return "node " + n.Name + " has no ready agent of provisioner " + l.Provisioner
		}
	}
	return ""
}

// node says why the node that had the volume may not be one that answered, "" if it is.
func (l Loss) node() string {
	var of []string // what the claim names: a claim that was moved may name two
	for _, key := range []string{contract.AnnSelectedNode, contract.AnnProvisionOnNode} {
		if name := l.Claim.Annotations[key]; name != "" {
			of = append(of, name)
		}
	}
	if len(of) == 0 {
		return "the claim names no node: a node that is gone may have the data, see docs/node-gone.md"
	}
	for _, name := range of {
		n := l.Nodes.Find(func(n *corev1.Node) bool { return n.Name == name })
		switch {
		case n == nil:
			return "node " + name + " does not exist, and may come back with its disk: see docs/node-gone.md"
		case n.CreationTimestamp.After(l.Claim.CreationTimestamp.Time):
			return "node " + name + " was registered after the claim was created, and its disk may be another: see " +
				"docs/node-gone.md"
		}
		if l.Pool != "" && !slices.ContainsFunc(l.Pools, func(p agents.Pools) bool {
			return p.Agent.Node == name && slices.ContainsFunc(p.Reports,
				func(r inspect.Report) bool { return r.Pool.Name == l.Pool })
		}) {
			return "node " + name + " reports no pool " + l.Pool
		}
	}
	return ""
}

// unread says what of an agent's pools was not read, "" if all was.
func unread(p agents.Pools) string {
	switch {
	case p.Problem != "":
		return p.Problem
	case len(p.Reports) == 0:
		return "its agent reported no pool"
	}
	for _, r := range p.Reports {
		switch {
		case !r.Pool.Held:
			return "no process owns pool " + r.Pool.Path
		case len(r.Damaged) > 0:
			return "pool " + r.Pool.Path + " has damaged records"
		case slices.ContainsFunc(r.Trash, func(t inspect.TrashEntry) bool { return t.Name == "" }):
			return "pool " + r.Pool.Path + " has something in its trash whose record cannot be read"
		}
	}
	return ""
}
