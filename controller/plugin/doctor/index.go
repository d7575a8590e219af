package doctor

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// index has the facts by name, so that a check of each volume or node does not search all others.
type index struct {
	nodes      map[string]*corev1.Node
	registered map[string]*storagev1.CSINode
	agents     map[string][]*cluster.Agent // by node
	served     map[string]bool             // provisioners and drivers of the agents
}

// index returns the index of the facts, which do not change between two calls of Run.
func (f *Facts) index() *index {
	if f.by != nil {
		return f.by
	}
	x := &index{map[string]*corev1.Node{}, map[string]*storagev1.CSINode{}, map[string][]*cluster.Agent{},
		map[string]bool{}}
	for i := range f.Nodes.Items {
		x.nodes[f.Nodes.Items[i].Name] = &f.Nodes.Items[i]
	}
	for i := range f.CSINodes.Items {
		x.registered[f.CSINodes.Items[i].Name] = &f.CSINodes.Items[i]
	}
	for i := range f.Agents.Items {
		a := &f.Agents.Items[i]
		x.agents[a.Node] = append(x.agents[a.Node], a)
		x.served[a.Driver] = a.Driver != ""
		for _, p := range a.Provisioners {
			x.served[p] = true
		}
	}
	f.by = x
	return x
}

func (f *Facts) node(name string) *corev1.Node { return f.index().nodes[name] }

// serves reports whether an agent serves the provisioner, or is its driver.
func (f *Facts) serves(provisioner string) bool { return f.index().served[provisioner] }

// servedOn reports whether an agent of the node serves the provisioner, or is its driver.
func (f *Facts) servedOn(node, provisioner string) bool {
	for _, a := range f.index().agents[node] {
		if a.Serves(provisioner) || a.Driver == provisioner {
			return true
		}
	}
	return false
}
