package plugin

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/explain"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

const gib = 1 << 30

func TestPrintAnswer(t *testing.T) {
	answer := &explain.Answer{Namespace: "shop", Name: "data", Class: "hostpath-csi", Size: 12 * gib, State: "Pending", Since: "5m",
		Findings: []explain.Finding{
			{Level: explain.Cause, What: "none of the 2 nodes can hold the volume", Do: "request at most 10Gi"},
			{Level: explain.Unknown, What: "unknown: may not list events"},
		},
		Nodes: []explain.Node{
			{Name: "node-01", Ready: "yes", Agent: "ready", Pool: "local", Available: ptr.To[int64](10 * gib), Lacks: []explain.Lack{{What: "12Gi are requested"}}},
			{Name: "node-02", Ready: "no", Agent: "none", Pool: "local", Lacks: []explain.Lack{{What: "it is not ready"}, {What: "no agent runs there"}}},
		},
		Events: []explain.Event{{Age: "10s", Type: "Warning", Object: "claim", Reason: "ProvisioningFailed", Message: "a name\x1b[31m"}},
	}
	var out bytes.Buffer
	if err := printAnswer(&out, view.Style{}, answer); err != nil {
		t.Fatal(err)
	}
	is(t, out.String(), `claim shop/data, 12Gi, class hostpath-csi: Pending, created 5m ago

  ✗ none of the 2 nodes can hold the volume
    → request at most 10Gi
  ? unknown: may not list events

NODE      READY   AGENT   POOL    AVAILABLE   LACKS
node-01   yes     ready   local        10Gi   12Gi are requested
node-02   no      none    local     unknown   it is not ready; no agent runs there

AGE   TYPE      OF      REASON               MESSAGE
10s   Warning   claim   ProvisioningFailed   "a name\x1b[31m"
`)
	out.Reset()
	if err := printAnswer(&out, view.Style{Color: true, Width: 44}, answer); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "  \x1b[31m✗\x1b[0m none of the 2 nodes can hold the volume\n") || strings.Contains(out.String(), "name\x1b") {
		t.Errorf("in color: %q", out.String())
	}
}

// A node whose agent does not answer and a node without one are rows, with what is wrong below.
func TestPrintStatus(t *testing.T) {
	f := fleet.Facts{Agents: cluster.List[cluster.Agent]{}}
	for _, name := range []string{"node-01", "node-02", "node-03", "node-04"} {
		ready := corev1.ConditionTrue
		if name == "node-02" {
			ready = corev1.ConditionUnknown
		}
		f.Nodes.Items = append(f.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}})
	}
	f.Nodes.Items = append(f.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win", Labels: map[string]string{corev1.LabelOSStable: "windows"}}})
	for _, a := range []cluster.Agent{{Node: "node-01", Ready: true}, {Node: "node-02", Ready: true}, {Node: "node-03", Why: "container x: ErrImagePull"}} {
		a.Namespace, a.Pod, a.Image, a.Process = "hpp", "agent-"+a.Node, "hpp:v1", cluster.NodeAgent
		f.Agents.Items = append(f.Agents.Items, a)
	}
	f.Pools = []agents.Pools{
		{Agent: f.Agents.Items[0], Reports: []inspect.Report{{Pool: inspect.Pool{Name: "local", Path: "/var/hpvolumes", Quotas: "project", Held: true},
			Space: space.Space{Total: 20 * gib, Free: 15 * gib, Allocated: 8 * gib, Available: 10 * gib}, Volumes: []inspect.Volume{{Name: "a"}, {Name: "b", Missing: true}}}}},
		{Agent: f.Agents.Items[1], Problem: "no answer within 10s (--timeout)"},
	}
	f.Capacities.Items = []storagev1.CSIStorageCapacity{
		{StorageClassName: "csi", Capacity: ptr.To(resource.MustParse("10Gi")), NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: "node-01"}}},
		{StorageClassName: "csi", Capacity: ptr.To(resource.MustParse("100Gi")), NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"cluster-autoscaler.kubernetes.io/template-node": "true"}}},
	}
	f.Pools[0].Reports[0].Pool.Filesystem = "8:1" // with another pool: its size counts once
	f.Pools[0].Reports = append(f.Pools[0].Reports, inspect.Report{Pool: inspect.Pool{Name: "b", Held: true, Filesystem: "8:1"}, Space: space.Space{Total: 20 * gib}})
	is(t, summary(&f, fleet.Of(&f)), "2 of 3 agents ready, 2 pools, 2 volumes, 8Gi of 20Gi allocated, not all pools of 1 agent known")
	f.Pools[0].Reports = f.Pools[0].Reports[:1]
	nodes, answered := fleet.Of(&f), f.Pools[0]
	is(t, summary(&f, nodes), "2 of 3 agents ready, 1 pool, 2 volumes, 8Gi of 20Gi allocated, not all pools of 1 agent known")
	f.Pools[0].Reports, f.Pools[0].Problem = nil, "no answer within 300ms (--timeout)"
	is(t, summary(&f, fleet.Of(&f)), "2 of 3 agents ready, pools unknown")
	f.Pools[0] = answered

	var out bytes.Buffer
	s := &session{style: view.Style{}}
	s.Out = &out
	if err := statusTable(nodes, true).Print(&out, s.style); err != nil {
		t.Fatal(err)
	}
	s.printProblems(nodes, []string{"may not list storageclasses"})
	is(t, out.String(), `NODE      READY   AGENT       POOL    VOLUMES   ALLOCATED   AVAILABLE   SIZE   USED
node-01   yes     ready       local         2         8Gi        10Gi   20Gi   █████░░░░░░░░░░░░░░░  25%
node-02   no      ready       -             -           -           -      -   -
node-03   yes     not ready   -             -           -           -      -   -
node-04   yes     none        -             -           -           -      -   -

  ! node-01: pool local: the directory of volume b is missing
  ! node-02: the node is not ready: kubectl describe node node-02
  ! node-02: its pools are unknown: no answer within 10s (--timeout)
  ! node-03: pod agent-node-03 is not ready: container x: ErrImagePull
  ! node-04: no agent runs there
  ? unknown: may not list storageclasses
`)
	out.Reset()
	if err := statusTable(nodes[:1], true).Print(&out, view.Style{Wide: true, NoHeaders: true}); err != nil {
		t.Fatal(err)
	}
	is(t, out.String(), "node-01   yes   ready   hpp:v1   local   /var/hpvolumes   2   8Gi   10Gi   20Gi   █████░░░░░░░░░░░░░░░  25%   project   csi=10Gi\n")
}

// What may not be listed is not taken for absent.
func TestStatusOfWhatIsUnknown(t *testing.T) {
	f := fleet.Facts{Nodes: cluster.List[corev1.Node]{Unknown: "may not list nodes"}, Agents: cluster.List[cluster.Agent]{Unknown: "may not list pods"}}
	is(t, summary(&f, fleet.Of(&f)), "agents unknown, pools unknown")
	f.Agents = cluster.List[cluster.Agent]{Items: []cluster.Agent{{Node: "node-01", Ready: true, Process: cluster.NodeAgent}}}
	f.NoPools = "may not run commands in the agents' pods"
	nodes := fleet.Of(&f)
	is(t, summary(&f, nodes), "1 of 1 agent ready, pools unknown")
	if len(nodes) != 1 || nodes[0].Ready != "unknown" || nodes[0].Problems != nil {
		t.Errorf("%+v", nodes)
	}
	f.Nodes = cluster.List[corev1.Node]{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}}
	if nodes := fleet.Of(&f); len(nodes) != 2 || nodes[0].Ready != "gone" {
		t.Errorf("an agent's node that does not exist: %+v", nodes)
	}
}

func is(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
