package install

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// passed reconciles some times.
func (o operated) passed() {
	o.Helper()
	for range 3 {
		o.pass("hpp")
	}
}

// replaced ends the agents of the nodes and starts new ones.
func (o operated) replaced(nodes ...string) {
	o.Helper()
	o.endAgents(nodes...)
	for _, node := range nodes {
		o.add(o.agentOn(node))
	}
	o.passed()
}

// message is that of the condition Progressing.
func (o operated) message() string {
	o.Helper()
	cr := &v1beta1.HostPathProvisioner{}
	if err := o.client.Get(o.Context(), client.ObjectKey{Name: "hpp"}, cr); err != nil {
		o.Fatal(err)
	}
	return progress(cr.Status).Message
}

// A pool that is a directory moves in two rollouts. If an agent that is not replaced yet creates a
// volume in the former directory, the pool stays there, as one that is removed does.
func TestDirectoryMoves(t *testing.T) {
	for _, used := range []bool{false, true} {
		o := installedOn(t, "n1", "n2")
		there := poolA
		there.Path = "/new"
		o.setPools(there, poolB)
		o.passed()
		o.wantOffered("b=/b/csi")
		o.replaced("n2")
		o.wantOffered("b=/b/csi")
		if used {
			o.add(pvOf("a")) // by the agent of n1, which still has /a/csi
			o.passed()
			o.wantOffered("a=/a/csib=/b/csi")
			continue
		}
		if text := o.message(); !strings.Contains(text, "pool a is offered at /new as soon as no agent offers pool a at /a any more: n1") {
			t.Errorf("message %q", text)
		}
		o.replaced("n1")
		o.wantOffered("a=/new/csib=/b/csi")
	}
}

// The only pool moves: the agents end, and are installed again.
func TestOnlyPoolMoves(t *testing.T) {
	o := installedOn(t, "n1")
	o.setPools(poolA)
	o.passed()
	o.replaced("n1")
	there := poolA
	there.Path = "/new"
	o.setPools(there)
	o.passed()
	o.wantOffered("")
	o.endAgents("n1")
	o.passed()
	o.wantOffered("a=/new/csi")
}

// A directory gets a pvcTemplate: no disk is mounted over it while an agent creates volumes there.
func TestDirectoryGetsADisk(t *testing.T) {
	for _, used := range []bool{false, true} {
		o := installedOn(t, "n1")
		on := poolA
		on.PVCTemplate = poolB.PVCTemplate
		o.setPools(on, poolB)
		holds := func() bool {
			d := &appsv1.Deployment{}
			err := o.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "hpp-pool-a-n1"}, d)
			return err == nil && *d.Spec.Replicas > 0
		}
		o.passed() // the agent on n1 is not replaced yet
		if holds() {
			t.Error("a disk is mounted over the directory in which the agent creates volumes")
		}
		if used {
			o.add(pvOf("a"))
		}
		o.replaced("n1")
		o.replaced("n1")
		if holds() == used {
			t.Errorf("used %v: a disk is mounted over the directory %v; %s", used, holds(), o.message())
		}
	}
}

// A pool takes the path at which the disk of another one is mounted: it is not offered there before
// that is unmounted on all nodes.
func TestPoolAtThePathOfAMovedOne(t *testing.T) {
	o := installedOn(t, "n1", "n2")
	there, c := poolB, v1beta1.StoragePool{Name: "c", Path: "/b", PVCTemplate: poolB.PVCTemplate}
	there.Path = "/z"
	o.setPools(poolA, there, c)
	for range 6 {
		o.pass("hpp")
		if strings.Contains(o.offered(), "c=/b/csi") {
			t.Fatalf("the agents offer %q, and the disk of pool b is mounted at /b", o.offered())
		}
	}
	o.replaced("n1", "n2")
	if o.offered() != "a=/a/csib=/z/csi" || !strings.Contains(o.message(), "pool c is offered at /b as soon as the disk of pool b is unmounted there: n1, n2") {
		t.Errorf("offered %q, message %q", o.offered(), o.message())
	}
	o.replaced("n1", "n2")
	for range 8 { // the disks are unmounted
		o.jobsComplete()
		o.passed()
	}
	if o.offered() != "a=/a/csib=/z/csic=/b/csi" {
		t.Errorf("offered %q, message %q", o.offered(), o.message())
	}
}

// A pool without volumes loses its pvcTemplate: its disks are unmounted, and then the directory is
// offered, in which the agents would have kept the disks mounted.
func TestPoolLosesItsDisk(t *testing.T) {
	o := installedOn(t, "n1")
	plain := poolB
	plain.PVCTemplate = nil
	o.setPools(poolA, plain)
	o.passed()
	o.replaced("n1")
	if o.offered() != "a=/a/csi" || !strings.Contains(o.message(), "pool b is offered at /b as soon as the disk of pool b is unmounted there: n1") {
		t.Errorf("offered %q, message %q", o.offered(), o.message())
	}
	for range 8 {
		o.jobsComplete()
		o.passed()
	}
	if o.offered() != "a=/a/csib=/b/csi" {
		t.Errorf("offered %q, message %q", o.offered(), o.message())
	}
	d := &appsv1.Deployment{}
	if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "hpp-pool-b-n1"}, d); err == nil {
		t.Error("the holder is left")
	}
}
