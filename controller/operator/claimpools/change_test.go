package claimpools

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

// Two pools whose claims would have one name: the first keeps its disk, and the second is refused.
func TestNamesThatCollide(t *testing.T) {
	c := objectsOf(t, nodeNamed("1", corev1.ConditionTrue), nodeNamed("ssd-1", corev1.ConditionTrue))
	template := poolP().Pools[0].Template
	w := objects.Desired{Pools: []objects.Pool{{Name: "local", Path: "/srv/local/csi", Template: template}}, Nodes: []objects.Node{{Name: "1"}, {Name: "ssd-1"}}, Agents: 2, Settled: true}
	c.pass(w)
	before := c.holder("hpp-pool-local-ssd-1")
	w.Pools = append(w.Pools, objects.Pool{Name: "local-ssd", Path: "/srv/ssd/csi", Template: template})
	for range 3 {
		r := c.pass(w)
		if text := strings.Join(r.States[1].Problems, "\n"); !strings.Contains(text, "that of pool local on node ssd-1") {
			t.Errorf("problems %q", text)
		}
	}
	if now := c.holder("hpp-pool-local-ssd-1"); now.UID != before.UID || objects.PathOf(now) != "/srv/local/csi" || objects.NodeOf(now) != "ssd-1" {
		t.Errorf("the holder of pool local is at %s on node %s", objects.PathOf(now), objects.NodeOf(now))
	}
}

// The webhook refuses a pool whose claim would have the name of another pool's.
func TestTaken(t *testing.T) {
	c := objectsOf(t, nodeNamed("1", corev1.ConditionTrue), nodeNamed("ssd-1", corev1.ConditionTrue))
	w := poolP()
	w.Pools[0].Name, w.Nodes = "local", []objects.Node{{Name: "1"}, {Name: "ssd-1"}}
	c.pass(w)
	for pool, want := range map[string]string{"local": "", "other": "", "local-ssd": "on node 1 its claim would have the name hpp-pool-local-ssd-1, which is that of a claim of pool local"} {
		got, err := NameTaken(t.Context(), c.Client, "ns", pool)
		if err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("pool %s: %q, %v, want %q", pool, got, err, want)
		}
	}
}

// Holders change on one node at a time, the next when the last is ready, and a node that is not
// ready is left out.
func TestChangesOneNodeAtATime(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionFalse), nodeNamed("n2", corev1.ConditionTrue), nodeNamed("n3", corev1.ConditionTrue))
	w := poolP()
	w.Nodes, w.Agents = []objects.Node{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}}, 3
	c.pass(w)
	c.bound()
	c.runs()
	c.k.Image = "image:v2"
	for _, want := range []string{"n2", "n2", "n2,n3", "n2,n3"} {
		c.pass(w)
		changed := []string{}
		for _, node := range w.Nodes {
			if c.holder(objects.NameOf("p", node.Name)).Spec.Template.Spec.Containers[0].Image == "image:v2" {
				changed = append(changed, node.Name)
			}
		}
		if got := strings.Join(changed, ","); got != want {
			t.Errorf("changed on %s, want %s", got, want)
		}
		if want == "n2" && len(changed) == 1 && c.holder(objects.NameOf("p", "n2")).Annotations["seen"] == "" {
			c.annotate("n2") // one more pass before it is ready
			continue
		}
		c.runs()
	}
}

// annotate marks the holder on the node.
func (c *cluster) annotate(node string) {
	d := c.holder(objects.NameOf("p", node))
	d.Annotations = map[string]string{"seen": "yes"}
	if err := c.Update(c.Context(), d); err != nil {
		c.Fatal(err)
	}
}

// bound binds all claims.
func (c *cluster) bound() {
	c.Helper()
	var all corev1.PersistentVolumeClaimList
	if err := c.List(c.Context(), &all); err != nil {
		c.Fatal(err)
	}
	for _, claim := range all.Items {
		claim.Status.Phase = corev1.ClaimBound
		if err := c.Status().Update(c.Context(), &claim); err != nil {
			c.Fatal(err)
		}
	}
}

// A pool that is removed before its claims are bound leaves claims that would take the next disks: each has
// an event. Those of a pool that is wanted, or still to be unmounted, have none.
func TestUnwantedClaims(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
	claim := &corev1.PersistentVolumeClaim{}
	c.pass(poolP())
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: objects.NameOf("p", "n2")}, claim); err != nil {
		t.Fatal(err)
	}
	claim.Spec.VolumeName = "disk"
	if err := c.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	unwanted := func() (n int) {
		for _, e := range c.events {
			if strings.Contains(e, "no pool wants this claim") {
				n++
			}
		}
		return n
	}
	removed, unsettled := poolP(), poolP()
	removed.Pools, unsettled.Pools, unsettled.Settled = nil, nil, false
	for _, row := range []struct {
		w    objects.Desired
		held bool
		want int
	}{{poolP(), true, 0}, {removed, true, 0}, {unsettled, false, 0}, {removed, false, 1}} {
		c.events = nil
		if !row.held {
			for name := range c.k.Record.Holders {
				delete(c.k.Record.Holders, name)
				c.gone(c.holder(name))
			}
		}
		if c.pass(row.w); unwanted() != row.want {
			t.Errorf("pools %v, settled %v: %q", row.w.Pools, row.w.Settled, c.events)
		}
	}
}

// The pod that mounts and the Job that unmounts have pool and claim; those of an earlier version
// have neither.
func TestOwnerOfTheMount(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
		c.pass(poolP())
		d := c.holder(objects.NameOf("p", "n1"))
		want := []string{"--pool=p", "--claim-uid=" + string(c.recorded()[d.Name].ClaimUID)}
		if args := d.Spec.Template.Spec.Containers[0].Args; c.recorded()[d.Name].ClaimUID == "" || !slices.Equal(args[3:], want) {
			t.Errorf("the holder has %q, want %q", args, want)
		}
		if earlier {
			want = nil
			d.Spec.Template.Spec.Containers[0].Args = d.Spec.Template.Spec.Containers[0].Args[:3]
			if err := c.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			c.runs()
			c.pass(objects.Desired{Settled: true})
		}
		c.runs()
		c.pass(objects.Desired{Settled: true})
		var job batchv1.Job
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: objects.JobOf("p", "n1")}, &job); err != nil {
			t.Fatal(err)
		}
		if args := job.Spec.Template.Spec.Containers[0].Args; !slices.Equal(args[3:], want) {
			t.Errorf("the Job has %q, want %q", args, want)
		}
	}
}

// While all disks are mounted and nothing differs, nothing is read again before a watch shows a
// change.
func TestAtRestNothingIsPolled(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionTrue))
	w := poolP()
	for i := range w.Nodes {
		w.Nodes[i].Offered = map[string]string{"p": "6e0c"}
	}
	c.pass(w)
	c.bound()
	c.runs()
	if r := c.pass(w); r.Again != 0 || len(r.States) != 1 || r.States[0].Phase != v1beta1.Ready {
		t.Errorf("again after %s: %+v", r.Again, r.States)
	}
	c.k.Image = "image:v2"
	if r := c.pass(w); r.Again == 0 {
		t.Error("n2 waits for n1, and nothing tells when that is ready")
	}
}
