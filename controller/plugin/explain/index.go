package explain

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// index has the facts by node, so that each node is judged without a look at all others.
type index struct {
	nodes      map[string]*corev1.Node
	agents     map[string][]*cluster.Agent // node agents
	pools      map[string][]*agents.Pools
	registered map[string]*storagev1.CSINode
	published  map[string]*storagev1.CSIStorageCapacity // for the claim's class
}

func indexOf(f *Facts) index {
	x := index{map[string]*corev1.Node{}, map[string][]*cluster.Agent{}, map[string][]*agents.Pools{},
		map[string]*storagev1.CSINode{}, map[string]*storagev1.CSIStorageCapacity{}}
	for i := range f.Nodes.Items {
		x.nodes[f.Nodes.Items[i].Name] = &f.Nodes.Items[i]
	}
	for i := range f.Agents.Items {
		if a := &f.Agents.Items[i]; a.Process == cluster.NodeAgent {
			x.agents[a.Node] = append(x.agents[a.Node], a)
		}
	}
	for i := range f.Pools {
		p := &f.Pools[i]
		x.pools[p.Agent.Node] = append(x.pools[p.Agent.Node], p)
	}
	for i := range f.CSINodes.Items {
		x.registered[f.CSINodes.Items[i].Name] = &f.CSINodes.Items[i]
	}
	x.publish(f)
	return x
}

// publish indexes what is published for the claim's class: by the node that an object names, or else by
// the nodes whose labels it selects.
func (x *index) publish(f *Facts) {
	for i := range f.Capacities.Items {
		c := &f.Capacities.Items[i]
		if f.Class.It == nil || c.StorageClassName != f.Class.It.Name || c.Capacity == nil || c.NodeTopology == nil {
			continue
		}
		if node := c.NodeTopology.MatchLabels[contract.TopologyNode]; node != "" {
			x.add(node, c)
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		if err != nil || s.Empty() {
			continue
		}
		for name, n := range x.nodes {
			if s.Matches(labels.Set(n.Labels)) {
				x.add(name, c)
			}
		}
	}
}

// add keeps the largest: the scheduler places a pod where any object has the space.
func (x *index) add(node string, c *storagev1.CSIStorageCapacity) {
	if x.published[node] == nil || x.published[node].Capacity.Cmp(*c.Capacity) < 0 {
		x.published[node] = c
	}
}
