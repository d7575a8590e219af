package install

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/former"
)

// A node that was left out gets its agent when the former one has ended there, also if it was deleted and
// made again, and no other agent is replaced for that. The next change replaces them all.
func TestNodeThatComesBackReplacesNoAgents(t *testing.T) {
	const rolling, onDelete = appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hostpath-provisioner", UID: "old", Labels: map[string]string{apply.ManagedBy: apply.Owner},
		Finalizers: []string{metav1.FinalizerDeleteDependents}}}
	o := operate(t, resource("hpp", time.Hour, v1beta1.StoragePool{Name: "a", Path: "/a"}), set)
	nodes := []string{"d1", "d2", "d3"}
	pods := map[string]*corev1.Pod{}
	for _, node := range nodes {
		pods[node] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old-" + node, Finalizers: []string{"test/hangs"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}, Spec: corev1.PodSpec{NodeName: node}}
		o.add(pods[node])
		if err := o.client.Delete(t.Context(), pods[node]); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, how appsv1.DaemonSetUpdateStrategyType, without ...string) {
		t.Helper()
		o.pass("hpp")
		o.pass("hpp")
		is := o.agents()
		if got := former.LeftOutBy(is); is.Spec.UpdateStrategy.Type != how || !slices.Equal(got, without) {
			t.Errorf("%s: %s without %v, want %s without %v", when, is.Spec.UpdateStrategy.Type, got, how, without)
		}
	}
	end := func(gone client.Object) {
		t.Helper()
		if err := o.client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); err != nil {
			t.Fatal(err)
		}
		gone.SetFinalizers(nil)
		if err := o.client.Update(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	want("while former pods are there", rolling, nodes...)
	older := o.agentOn("alive") // its template is not the current one
	older.Name, older.Annotations, older.Finalizers = "older", nil, nil
	o.add(older)
	o.add(o.agentOn("other"))
	end(pods["d1"])
	want("during a rollout", rolling, "d2", "d3")
	if err := o.client.Delete(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	before := o.agents()
	end(pods["d2"])
	want("when a node comes back", onDelete, "d3")
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{Get: getOf(before)})
	o.pass("hpp")
	o.Client = o.client
	want("after a pass with a cache that lags behind", onDelete, "d3")
	end(pods["d3"])
	end(set)
	want("when the last one comes back", onDelete)
	want("later", onDelete)

	edited := o.agents()
	edited.Spec.Template.Spec.Containers[0].Image = "edited"
	if err := o.client.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	want("after an edit by hand", rolling)
}

// Agents that stayed when a node came back are replaced at the next change.
func TestChangeAfterANodeCameBack(t *testing.T) {
	o := operate(t, resource("hpp", time.Hour, v1beta1.StoragePool{Name: "a", Path: "/a"}))
	o.pass("hpp")
	o.add(o.agentOn("n1"))
	back := o.agents()
	back.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	want := func(when string, image string, how appsv1.DaemonSetUpdateStrategyType) {
		t.Helper()
		o.pass("hpp")
		if is := o.agents(); is.Spec.UpdateStrategy.Type != how || is.Spec.Template.Spec.Containers[0].Image != image {
			t.Errorf("%s: %s of %s", when, is.Spec.UpdateStrategy.Type, is.Spec.Template.Spec.Containers[0].Image)
		}
	}
	if err := o.client.Update(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	want("an edit by hand", "image:v1", appsv1.RollingUpdateDaemonSetStrategyType)
	asApplied := o.agents()
	o.Image = "image:v2"
	want("a change", "image:v2", appsv1.RollingUpdateDaemonSetStrategyType)
	if asApplied.Spec.Template.Annotations["hostpathprovisioner.kubevirt.io/template"] == o.agents().Spec.Template.Annotations["hostpathprovisioner.kubevirt.io/template"] {
		t.Error("pods of both images have the same mark")
	}
}
