package claimpools

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

// published has the agent of a node publish the pool as open at the path.
func published(node, path string) *storagev1.CSIStorageCapacity {
	o := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: node}, StorageClassName: contract.PoolsClass,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: node}}}
	_ = contract.NodePools{Pod: "agent-" + node, Pools: []contract.NodePool{{Name: "p", Path: path, ID: "6e0c", Open: true}}}.Publish(o)
	return o
}

// The machine of a Node that is absent may run on, with its agent and the pool: the holder stays until
// what the agent published is gone, and while a Node of another name has the pool open.
func TestAbsentNodeWhosePoolIsOpen(t *testing.T) {
	for name, row := range map[string]struct {
		published *storagev1.CSIStorageCapacity
		why       string // "" if the holder ends
	}{
		"none":                       {nil, ""},
		"its own":                    {published("n1", "/srv/p/csi"), "its agent may still have pool p open"},
		"its own, at another path":   {published("n1", "/srv/q/csi"), ""},
		"the machine is now n2":      {published("n2", "/elsewhere"), "node n2 has pool 6e0c open"},
		"another Node that is gone":  {published("n3", "/srv/p/csi"), ""},
		"of an agent of another set": {&storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}, StorageClassName: "fast"}, ""},
	} {
		c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
		w := poolP()
		w.Nodes[0].Offered = map[string]string{"p": "6e0c"}
		c.pass(w)
		c.runs()
		if err := c.Delete(t.Context(), nodeNamed("n1", corev1.ConditionTrue)); err != nil {
			t.Fatal(err)
		}
		if row.published != nil {
			c.create(row.published)
		}
		gone := poolP()
		gone.Nodes = gone.Nodes[1:]
		r := c.pass(gone)
		if row.why == "" {
			c.wantReplicas("n1", -1)
			continue
		}
		c.wantReplicas("n1", 1)
		if !strings.Contains(strings.Join(r.Left, "\n"), row.why) {
			t.Errorf("%s: left %q, want %q", name, r.Left, row.why)
		}
		if err := c.Client.Delete(t.Context(), row.published); err != nil {
			t.Fatal(err)
		}
		c.pass(gone)
		c.wantReplicas("n1", -1)
		c.pass(objects.Desired{Settled: true, Deleted: true})
	}
}

// An earlier version recorded no UUID of a pool, and its agents publish none. An agent that runs on an absent Node
// keeps the holder there, and a pool that another node has open does not. The first agent that publishes has the
// UUID recorded.
func TestHolderOfAnEarlierVersion(t *testing.T) {
	agent := agentOn("n1", `[{"name":"p","path":"/srv/p/csi"}]`)
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue), agent, published("n2", "/srv/p/csi"))
	c.pass(poolP())
	c.runs()
	if err := c.Delete(t.Context(), nodeNamed("n1", corev1.ConditionTrue)); err != nil {
		t.Fatal(err)
	}
	gone := poolP()
	gone.Nodes = gone.Nodes[1:]
	if r := c.pass(gone); !strings.Contains(strings.Join(r.Left, "\n"), "the agent has to end, pod agent-n1") {
		t.Errorf("left %q", r.Left)
	}
	c.wantReplicas("n1", 1)
	c.gone(agent)
	c.pass(gone)
	c.wantReplicas("n1", -1)
	gone.Nodes[0].Offered = map[string]string{"p": "6e0c"}
	c.pass(gone)
	if h := c.recorded()[objects.NameOf("p", "n2")]; h.ID != "6e0c" {
		t.Errorf("recorded %+v", h)
	}
}

// A pool with a nodeSelector gets claims on matching nodes. On one that loses the label its holder stays,
// because its volumes are there.
func TestSelectedNodes(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
	w := poolP()
	w.Pools[0].NodeSelector = map[string]string{"disk": "fast"}
	w.Nodes[0].Labels = map[string]string{"disk": "fast", "other": "x"}
	w.Nodes[1].Labels = map[string]string{"disk": "slow"}
	r := c.pass(w)
	c.wantReplicas("n1", 1)
	c.wantReplicas("n2", -1)
	var claims corev1.PersistentVolumeClaimList
	if err := c.List(t.Context(), &claims); err != nil || len(claims.Items) != 1 || r.States[0].DesiredReady != 1 {
		t.Errorf("%d claims, %v, %+v", len(claims.Items), err, r.States)
	}
	w.Nodes[0].Labels = nil
	c.runs()
	r = c.pass(w)
	c.wantReplicas("n1", 1)
	if len(r.Left)+len(r.Kept) != 0 || r.States[0].DesiredReady != 1 {
		t.Errorf("left %q, kept %q, %+v", r.Left, r.Kept, r.States)
	}
}
