package install

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/operator/former"
)

// answers sets whether a node is ready.
func (o operated) answers(name string, is corev1.ConditionStatus) {
	o.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := o.client.Get(o.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		o.Fatal(err)
	}
	node.Status.Conditions[0].Status = is
	if err := o.client.Status().Update(o.Context(), node); err != nil {
		o.Fatal(err)
	}
}

// takenOver returns the installation of another operator that was taken over while a node was dead: its
// DaemonSet, which cannot be changed into the wanted one, was replaced, its pod is still on that node, and
// there was no record.
func takenOver(t *testing.T) operated {
	t.Helper()
	o := installedOn(t, "alive", "dead")
	o.answers("dead", corev1.ConditionUnknown)
	if err := o.client.Delete(t.Context(), o.recorded()); err != nil {
		t.Fatal(err)
	}
	set := o.agents()
	if err := o.client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	set.ResourceVersion, set.UID, set.Finalizers = "", "another", []string{metav1.FinalizerDeleteDependents}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "another operator"}}
	o.add(set)
	for _, node := range []string{"alive", "dead"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-" + node}}
		if err := o.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		pod.OwnerReferences[0].UID = set.UID
		if err := o.client.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	o.passed()
	dead := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-dead"}}
	if err := o.client.Delete(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	o.endAgents("alive")
	o.passed()
	if got := former.LeftOutBy(o.agents()); o.agents().UID == set.UID || !slices.Equal(got, []string{"dead"}) {
		t.Fatalf("not taken over: DaemonSet %s leaves out %v", o.agents().UID, got)
	}
	o.add(o.agentOn("alive"))
	o.counts(1, 0)
	o.passed()
	return o
}

// A dead node comes back after a take-over, and the former agent makes a volume before its pod ends. Its pool,
// which was removed meanwhile, is offered again, and the disk stays mounted. Without a volume it is unmounted once
// that agent has ended, and not before.
func TestDeadNodeComesBackAfterATakeOver(t *testing.T) {
	for _, used := range []bool{false, true} {
		o := takenOver(t)
		o.wantHolder("dead", "1")
		o.setPools(poolA)
		o.passed()
		o.replaced("alive")
		o.jobsComplete()
		o.passed()
		o.wantHolder("dead", "1") // its agent may run on
		o.answers("dead", corev1.ConditionTrue)
		o.passed()
		o.wantHolder("dead", "1")
		if got := former.LeftOutBy(o.agents()); !slices.Equal(got, []string{"dead"}) {
			t.Errorf("used %t: the agents leave out %v while the former agent runs", used, got)
		}
		if used {
			pv := pvOf("b")
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "dead"
			o.add(pv)
		}
		dead := &corev1.Pod{}
		if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "agent-dead"}, dead); err != nil {
			t.Fatal(err)
		}
		dead.Finalizers = nil // its kubelet ends it
		if err := o.client.Update(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		o.passed()
		o.counts(2, 0)
		for range 4 {
			o.replaced("alive")
			o.jobsComplete()
			o.passed()
		}
		if got := former.LeftOutBy(o.agents()); len(got) > 0 {
			t.Errorf("used %t: the agents leave out %v", used, got)
		}
		if used {
			o.wantOffered("a=/a/csib=/b/csi")
			o.wantHolder("dead", "1")
		} else {
			o.wantOffered("a=/a/csi")
			o.wantHolder("dead", "none")
		}
	}
}
