// Package fleet joins nodes, agents, pools and what they publish into one table of the
// installation, and their volumes with PVs and claims. It computes values only.
//
//	fleet.go       nodes with their agents and pools
//	volumes.go     volumes, of which pools, PVs and claims each have a part
//	migrations.go  volumes whose PVs are, were, or shall be replaced
//	disks.go       raw disks, and their PVs
package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// Facts are what was read.
type Facts struct {
	Nodes      cluster.List[corev1.Node]
	Agents     cluster.List[cluster.Agent]
	Capacities cluster.List[storagev1.CSIStorageCapacity]
	// Pools are the answers of the agents. NoPools says why they were not asked; "" if they were.
	Pools   []agents.Pools
	NoPools string
}

// Node is a node with its agents and pools.
type Node struct {
	Name string `json:"name"`
	// Ready is yes, no, unknown, or gone for a node that an agent or a volume names and that does not
	// exist.
	Ready  string          `json:"ready"`
	Agents []cluster.Agent `json:"agents,omitempty"`
	Pools  []Pool          `json:"pools,omitempty"`
	// Published are the bytes that the node has published as available, by class.
	Published map[string]int64 `json:"published,omitempty"`
	// Problems are what an administrator should know, each a sentence.
	Problems []string `json:"problems,omitempty"`
}

// Pool is a pool as its agent reports it. Sizes are in bytes.
type Pool struct {
	Name      string `json:"name"`
	Path      string `json:"path"`
	Total     int64  `json:"total"`
	Free      int64  `json:"free"`
	Allocated int64  `json:"allocated"`
	Available int64  `json:"available"`
	Quotas    string `json:"quotas"`
	NoQuotas  string `json:"noQuotas,omitempty"`
	Volumes   int    `json:"volumes"`
	Trash     int    `json:"trash"`
	NoInodes  bool   `json:"noInodes,omitempty"`
	// Report is the whole report of the agent.
	Report *inspect.Report `json:"-"`
}

// Used returns the bytes of the filesystem that are not free.
func (p *Pool) Used() int64 { return p.Total - p.Free }

// Of returns the nodes by name. Nodes without an agent are among them if the list of nodes is
// known, Windows nodes excepted.
func Of(f *Facts) []Node {
	byName := map[string]*Node{}
	at := func(name, ready string) *Node {
		if byName[name] == nil {
			byName[name] = &Node{Name: name, Ready: ready}
		}
		return byName[name]
	}
	for i := range f.Nodes.Items {
		n := &f.Nodes.Items[i]
		if n.Labels[corev1.LabelOSStable] == "windows" {
			continue
		}
		row := at(n.Name, "yes")
		if !contract.NodeReady(n) {
			row.Ready = "no"
			row.Problems = append(row.Problems, "the node is not ready: kubectl describe node "+n.Name)
		}
	}
	missing := "gone"
	if !f.Nodes.Known() {
		missing = "unknown"
	}
	for _, a := range f.Agents.Items {
		n := at(cmp.Or(a.Node, "-"), missing)
		n.Agents = append(n.Agents, a)
		if a.Unmarked != "" {
			n.Problems = append(n.Problems, "pod "+a.Pod+" is "+a.Unmarked)
		}
		if !a.Ready {
			n.Problems = append(n.Problems, "pod "+a.Pod+" is not ready: "+a.Why)
		}
	}
	f.addPools(at, missing)
	f.addPublished(at, missing)
	all := make([]Node, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		n := byName[name]
		if len(n.Agents) == 0 && f.Agents.Known() && n.Ready != "gone" && !f.leftOut(name) {
			n.Problems = append(n.Problems, "no agent runs there")
		}
		all = append(all, *n)
	}
	return all
}

// leftOut reports whether the rules of all agents' DaemonSets keep them from a node, such as one of the
// control plane. It is false if there are no agents.
func (f *Facts) leftOut(name string) bool {
	n := f.Nodes.Find(func(n *corev1.Node) bool { return n.Name == name })
	return n != nil && len(f.Agents.Items) > 0 &&
		f.Agents.Find(func(a *cluster.Agent) bool { return a.Process == cluster.NodeAgent && !a.LeavesOut(n) }) == nil
}

func (f *Facts) addPools(at func(name, ready string) *Node, missing string) {
	for _, p := range f.Pools {
		n := at(p.Agent.Node, missing)
		switch {
		case p.Problem != "" && len(p.Reports) > 0:
			n.Problems = append(n.Problems, "not all of its pools can be read: "+p.Problem)
		case p.Problem != "":
			n.Problems = append(n.Problems, "its pools are unknown: "+p.Problem)
		}
		for i := range p.Reports {
			r := &p.Reports[i]
			n.Pools = append(n.Pools, Pool{Name: cmp.Or(r.Pool.Name, r.Pool.Path), Path: r.Pool.Path, Total: r.Space.Total,
				Free: r.Space.Free, Allocated: r.Space.Allocated, Available: r.Space.Obtainable(), Quotas: r.Pool.Quotas,
				NoQuotas: r.Pool.NoQuotas, Volumes: len(r.Volumes), Trash: len(r.Trash), NoInodes: r.Space.NoInodes, Report: r})
			n.Problems = append(n.Problems, Problems(r)...)
		}
	}
}

// Problems returns what a report has for an administrator.
func Problems(r *inspect.Report) (all []string) {
	name := "pool " + cmp.Or(r.Pool.Name, r.Pool.Path)
	for _, w := range r.Warnings {
		all = append(all, name+": "+w)
	}
	if !r.Pool.Held {
		all = append(all, name+" is owned by no process: its agent has not opened it")
	}
	if len(r.Damaged) > 0 {
		all = append(all, name+" has damaged records: "+strings.Join(r.Damaged, ", "))
	}
	for _, v := range r.Volumes {
		switch {
		case v.Missing:
			all = append(all, name+": the directory of volume "+v.Name+" is missing")
		case v.Migration != nil && v.Migration.Stopped != "":
			all = append(all, name+": the migration of volume "+v.Name+" stopped: "+v.Migration.Stopped)
		}
	}
	for _, t := range r.Trash {
		if t.Stuck != "" {
			all = append(all, name+": "+t.ID+" cannot be removed from the trash: "+t.Stuck)
		}
	}
	return all
}

// addPublished adds what the drivers have published. An object that names no node, such as one for
// an autoscaler, is none of a node.
func (f *Facts) addPublished(at func(name, ready string) *Node, missing string) {
	for _, c := range f.Capacities.Items {
		if c.NodeTopology == nil || c.Capacity == nil {
			continue
		}
		name := c.NodeTopology.MatchLabels[contract.TopologyNode]
		if name == "" {
			continue
		}
		n := at(name, missing)
		if n.Published == nil {
			n.Published = map[string]int64{}
		}
		n.Published[c.StorageClassName] = contract.WholeBytes(c.Capacity)
	}
}
