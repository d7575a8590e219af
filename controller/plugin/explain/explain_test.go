package explain

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// What the user may not read is unknown: it is never taken for absent.
func TestUnknown(t *testing.T) {
	for _, claim := range []string{"new", "data"} {
		for _, resource := range []string{"nodes", "pods", "storageclasses", "csistoragecapacities", "csinodes", "events", "persistentvolumes", "pods/exec", "*"} {
			c := scene.Healthy()
			c.Event("PersistentVolumeClaim", "new", "Provisioning", "").Type = corev1.EventTypeNormal
			f := read(t, c, claim) // to have the claim
			c.Forbidden = []string{resource}
			if resource != "*" {
				f = read(t, c, claim)
			} else {
				f = &Facts{Now: f.Now, Claim: f.Claim}
				f.Nodes.Unknown, f.Class.Unknown, f.Agents.Unknown, f.PV.Unknown = "may not list it", "may not list it", "may not list it", "may not list it"
			}
			needless := claim == "data" && (resource == "csinodes" || resource == "csistoragecapacities" || resource == "storageclasses") || claim == "new" && resource == "persistentvolumes"
			if answer := Explain(f); answer.Blocked() || !needless && !strings.Contains(text(answer), "unknown: unknown: may not ") {
				t.Errorf("%s of %s: want no cause, and what is unknown:\n%s", resource, claim, text(answer))
			}
		}
	}
}

// nodes gives the facts as many nodes as a large cluster has. All pools are too small.
func (f *Facts) nodes(count int) {
	node, agent, csi, capacity, pool := f.Nodes.Items[0], f.Agents.Items[0], f.CSINodes.Items[0], f.Capacities.Items[0], f.Pools[0]
	f.Nodes.Items, f.Agents.Items, f.CSINodes.Items, f.Capacities.Items, f.Pools = nil, nil, nil, nil, nil
	for i := range count {
		name := fmt.Sprintf("ip-10-0-%05d.eu-central-1.compute.internal", i)
		n, a, c, s, p := *node.DeepCopy(), agent, *csi.DeepCopy(), *capacity.DeepCopy(), pool
		n.Name, a.Node, c.Name, p.Agent.Node = name, name, name, name
		n.Labels = map[string]string{corev1.LabelHostname: name, contract.TopologyNode: name}
		s.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: name}}
		f.Nodes.Items, f.Agents.Items, f.CSINodes.Items = append(f.Nodes.Items, n), append(f.Agents.Items, a), append(f.CSINodes.Items, c)
		f.Capacities.Items, f.Pools = append(f.Capacities.Items, s), append(f.Pools, p)
	}
}

func large(t *testing.T, count int) *Facts {
	c := scene.Healthy()
	wait(c)
	request(c, "1Ti")
	f := read(t, c, "new")
	f.nodes(count)
	return f
}

// The time grows with the nodes, not with their square.
func TestExplainIsLinear(t *testing.T) {
	scene.Linear(t, 1000, func(count int) func() {
		f := large(t, count)
		return func() { Explain(f) }
	})
}

// Agents are asked for their pools where the volume could be: also if the claim names a node that
// does not exist.
func TestServing(t *testing.T) {
	for name, row := range map[string]struct {
		change func(c *scene.Cluster)
		want   int
	}{
		"the node": {func(*scene.Cluster) {}, 1}, "no node": {wait, 2},
		"a node that does not exist": {func(c *scene.Cluster) { c.Claim("new").Annotations[contract.AnnSelectedNode] = "node-09" }, 2},
		"another provisioner":        {func(c *scene.Cluster) { c.Class("local").Provisioner = "other" }, 0},
		"the PV is lost":             {func(c *scene.Cluster) { lost(c); c.Agent("node-02").Spec.Containers[0].Env[0].Value = "hostpath" }, 2},
		"raw disks":                  {func(c *scene.Cluster) { c.Agent("node-01").Spec.Containers[0].Args = []string{"disks"} }, 0},
	} {
		c := scene.Healthy()
		row.change(c)
		if got := read(t, c, "new").serving(); len(got) != row.want {
			t.Errorf("%s: %d agents, want %d", name, len(got), row.want)
		}
	}
}

// Every reason of an event is explained where it is recorded: with its message, and with what the
// reference asks for.
func TestEveryReason(t *testing.T) {
	kinds := map[string][2]string{"claim": {"PersistentVolumeClaim", "data"}, "PV": {"PersistentVolume", "pvc-1"}, "node": {"Node", "node-01"}}
	for _, r := range events.Reasons() {
		for object, of := range kinds {
			if !strings.Contains(r.Object, object) {
				continue
			}
			c := scene.Healthy()
			c.Event(of[0], of[1], r.Name, "because of the moon").Type = r.Type
			answer := Explain(read(t, c, "data"))
			if len(answer.Events) != 1 || answer.Events[0].Object != object || answer.Events[0].Message != "because of the moon" ||
				(answer.Events[0].Do == "") != (r.Action == "") || strings.Contains(answer.Events[0].Do, "](") {
				t.Errorf("%s of a %s: events %+v", r.Name, object, answer.Events)
			}
			do := answer.Events[0].Do
			if strings.HasPrefix(do, "do what the message says") {
				do = ""
			}
			if warned := strings.Contains(text(answer), "event "+r.Name+" of the "+object+": because of the moon => "+do+"\n"); warned != (r.Type == "Warning") {
				t.Errorf("%s of a %s, a %s, among the findings: %t\n%s", r.Name, object, r.Type, warned, text(answer))
			}
		}
	}
}
