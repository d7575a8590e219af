package claimpools

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

// moved is pool p at another path.
func moved() objects.Desired {
	w := poolP()
	w.Pools[0].Path = "/srv/q/csi"
	return w
}

// The disks of a pool that is moved stay until no agent of any node offers the pool at the former
// path, nor has created a volume there. An agent that a node does not end, because it does not
// answer, is not waited for.
func TestMoves(t *testing.T) {
	const former = `[{"name":"p","path":"/srv/p/csi"}]`
	deleted := agentOn("n2", former)
	deleted.Finalizers = []string{"test/keep"}
	for _, row := range []struct {
		name   string
		object client.Object
		n2     corev1.ConditionStatus
		why    string
	}{
		{"an agent of another node", agentOn("n2", former), corev1.ConditionTrue, "pod agent-n2"},
		{"an agent of another node that does not answer", agentOn("n2", former), corev1.ConditionUnknown, "pod agent-n2"},
		{"an agent that ends", deleted, corev1.ConditionTrue, "pod agent-n2"},
		{"an agent that ends on a node that does not answer", deleted, corev1.ConditionUnknown, ""},
		{"an agent that was replaced", agentOn("n2", `[{"name":"p","path":"/srv/q/csi"}]`), corev1.ConditionTrue, ""},
		{"a PV on another node", volumeOn("n2"), corev1.ConditionTrue, "PV pv-n2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", row.n2))
			c.pass(poolP())
			c.runs()
			c.create(row.object)
			if len(row.object.GetFinalizers()) > 0 {
				if err := c.Delete(t.Context(), row.object); err != nil {
					t.Fatal(err)
				}
			}
			r := c.pass(moved())
			if row.why == "" {
				c.wantReplicas("n1", 0)
				return
			}
			c.wantReplicas("n1", 1)
			if told := strings.Join(append(r.Left, r.Kept...), "\n"); !strings.Contains(told, row.why) {
				t.Errorf("left %q, kept %q, want %q", r.Left, r.Kept, row.why)
			}
		})
	}
}

// When one disk has moved, the volumes of its node do not keep the disks of the others at the
// former path.
func TestMovesOneAfterAnother(t *testing.T) {
	c := objectsOf(t, nodeNamed("n1", corev1.ConditionTrue), nodeNamed("n2", corev1.ConditionFalse))
	c.pass(poolP())
	for range 5 {
		c.runs()
		c.pass(moved())
	}
	if d := c.holder(objects.NameOf("p", "n1")); objects.PathOf(d) != "/srv/q/csi" {
		t.Fatalf("the holder of n1 is at %s", objects.PathOf(d))
	}
	if d := c.holder(objects.NameOf("p", "n2")); objects.PathOf(d) != "/srv/p/csi" {
		t.Fatalf("the holder of n2, which is not ready, is at %s", objects.PathOf(d))
	}
	c.create(volumeOn("n1"))
	n2 := nodeNamed("n2", corev1.ConditionTrue)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(n2), n2); err != nil {
		t.Fatal(err)
	}
	n2.Status = nodeNamed("n2", corev1.ConditionTrue).Status
	if err := c.Status().Update(t.Context(), n2); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		c.runs()
		c.pass(moved())
	}
	for _, node := range []string{"n1", "n2"} {
		if d := c.holder(objects.NameOf("p", node)); d == nil || objects.PathOf(d) != "/srv/q/csi" {
			t.Errorf("the holder of %s is %+v", node, d)
		}
	}
}
