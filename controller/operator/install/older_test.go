package install

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/former"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// without returns the nodes that the agents' DaemonSet leaves out, and whether there is one.
func (o operated) without() (nodes []string, installed bool) {
	o.Helper()
	set, err := o.installed().DaemonSet(o.Context())
	if err != nil || set == nil {
		return nil, false
	}
	if a := set.Spec.Template.Spec.Affinity; a != nil {
		for _, field := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields {
			nodes = append(nodes, string(field.Operator)+" "+field.Values[0])
		}
	}
	return nodes, true
}

// On taking over, a node that does not answer gets no agent before the older operator's pod there
// has ended, and the others do not wait for it. A pod of a node that answers is waited for.
func TestTakeOverBesideADeadNode(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hostpath-provisioner", UID: "old", Labels: map[string]string{apply.ManagedBy: apply.Owner},
		Finalizers: []string{metav1.FinalizerDeleteDependents}}}
	pod := func(node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old-" + node, Finalizers: []string{"test/hangs"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}, Spec: corev1.PodSpec{NodeName: node}}
	}
	o := operate(t, resource("hpp", time.Hour, v1beta1.StoragePool{Name: "a", Path: "/a"}),
		node("alive", corev1.ConditionTrue), node("dead", corev1.ConditionUnknown), set.DeepCopy(), pod("alive"), pod("dead"))
	end := func(o client.Client, what client.Object) {
		t.Helper()
		if err := o.Get(t.Context(), client.ObjectKeyFromObject(what), what); err != nil {
			t.Fatal(err)
		}
		what.SetFinalizers(nil)
		if err := o.Update(t.Context(), what); err != nil {
			t.Fatal(err)
		}
	}
	installed := func(when string, want bool, without ...string) {
		t.Helper()
		o.pass("hpp")
		o.pass("hpp")
		if got, is := o.without(); is != want || !slices.Equal(got, without) {
			t.Errorf("%s: installed %v without %v, want %v without %v", when, is, got, want, without)
		}
	}
	installed("at first", false)
	lists := 0
	o.Live = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok {
				lists++
			}
			return c.List(ctx, list, opts...)
		}})
	if o.pass("hpp"); lists != 1 {
		t.Errorf("a pass listed the pods %d times", lists)
	}
	if err := o.client.Delete(t.Context(), pod("alive")); err != nil {
		t.Fatal(err)
	}
	installed("while a pod of a node that answers ends", false)
	named := func(when string, want bool) {
		t.Helper()
		var cr v1beta1.HostPathProvisioner
		err := o.client.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr)
		if m := progress(cr.Status).Message; err != nil || !strings.Contains(m, "waits for the pods of the older DaemonSet hostpath-provisioner") ||
			strings.Contains(m, "pod old-alive on node alive") != want || strings.Contains(m, "old-dead") {
			t.Errorf("%s: %v, %s", when, err, m)
		}
	}
	named("while it may still end", false)
	o.Now = func() time.Time { return time.Now().Add(agentstatus.Startup + time.Minute) }
	installed("when it does not end", false)
	named("when it does not end", true)
	end(o.client, pod("alive"))
	installed("before the dead node's pod is deleted", false)
	if err := o.client.Delete(t.Context(), pod("dead")); err != nil {
		t.Fatal(err)
	}
	installed("with the dead node's pod", true, "NotIn dead")
	var cr v1beta1.HostPathProvisioner
	if err := o.client.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr); err != nil || !strings.Contains(progress(cr.Status).Message, "dead") {
		t.Errorf("%v, condition %+v", err, progress(cr.Status))
	}
	end(o.client, pod("dead"))
	end(o.client, set.DeepCopy())
	installed("when all is gone", true)
}

// A DaemonSet that cannot be changed into the wanted one is replaced, although the pod of a node
// that does not answer never ends. That node gets no agent before the pod has, also when it answers
// again.
func TestReplaceBesideADeadNode(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: installed.DaemonSetName, UID: "old", Finalizers: []string{metav1.FinalizerDeleteDependents}},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": "another operator"}}}}
	o := operate(t, resource("hpp", time.Hour, v1beta1.StoragePool{Name: "a", Path: "/a"}),
		node("alive", corev1.ConditionTrue), node("dead", corev1.ConditionUnknown), set)
	pod := func(node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old-" + node, Finalizers: []string{"test/hangs"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}, Spec: corev1.PodSpec{NodeName: node}}
	}
	o.add(pod("alive"))
	o.add(pod("dead"))
	installed := func(when string, want bool, without ...string) {
		t.Helper()
		for range 3 {
			o.pass("hpp")
		}
		set, err := o.installed().DaemonSet(t.Context())
		is := err == nil && set != nil && set.UID != "old"
		if is != want || is && !slices.Equal(former.LeftOutBy(set), without) {
			t.Errorf("%s: %+v, want installed %v without %v", when, set, want, without)
		}
	}
	end := func(node string) {
		p := pod(node)
		if err := o.client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		p.Finalizers = nil
		if err := o.client.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	installed("at first", false)
	for _, node := range []string{"alive", "dead"} {
		if err := o.client.Delete(t.Context(), pod(node)); err != nil {
			t.Fatal(err)
		}
	}
	installed("while a pod of a node that answers ends", false)
	end("alive")
	installed("with the dead node's pod", true, "dead")
	back := node("dead", corev1.ConditionTrue)
	if err := o.client.Status().Update(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	installed("when the node answers, and its kubelet ends the pod", true, "dead")
	o.add(pvOf("a"))
	o.deletes(nil)
	installed("when the resource is deleted and waits for a volume", true, "dead")
	end("dead")
	installed("when all is gone", true)
}

// Agents that are installed on all nodes stay on them while an older DaemonSet goes, also beside a
// pod of an earlier one that nothing can end: they run there already.
func TestInstalledAgentsStay(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: installed.DaemonSetName, UID: "now"}}
	old := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hostpath-provisioner", UID: "old", Labels: map[string]string{apply.ManagedBy: apply.Owner},
		Finalizers: []string{metav1.FinalizerDeleteDependents}}}
	before := set.DeepCopy()
	before.UID = "before"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "before", Finalizers: []string{"test/hangs"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(before, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}},
		Spec: corev1.PodSpec{NodeName: "gone"}}
	o := operate(t, set, old, pod)
	if err := o.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if found, err := o.former().Remove(t.Context()); found.Waiting == "" || len(found.Without) > 0 || err != nil {
		t.Errorf("%+v, %v", found, err)
	}
	if err := o.client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if found, err := o.former().Remove(t.Context()); found.Waiting == "" || !slices.Equal(found.Without, []string{"gone"}) || err != nil {
		t.Errorf("without agents: %+v, %v", found, err)
	}
}
