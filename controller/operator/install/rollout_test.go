package install

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// rolledOut is the agents' DaemonSet of an older template, with all its pods ready.
func rolledOut() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: installed.DaemonSetName, UID: "2", Generation: 1},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "hostpath-provisioner"}}},
		Status:     appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2},
	}
}

// A pass that writes the DaemonSet, and reads it from a cache that does not have the write yet,
// does not take the older agents for those that it asked for.
func TestWriteThatTheCacheDoesNotHaveIsARollout(t *testing.T) {
	for _, row := range []struct {
		name string
		had  func(*appsv1.DaemonSet)
	}{
		{"changed", func(*appsv1.DaemonSet) {}},
		{"replaced", func(ds *appsv1.DaemonSet) { ds.Spec.Selector.MatchLabels = map[string]string{"other": "selector"} }},
		{"being deleted", func(ds *appsv1.DaemonSet) {
			ds.DeletionTimestamp, ds.Finalizers = ptr.To(metav1.Now()), []string{metav1.FinalizerDeleteDependents}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			ds := rolledOut()
			row.had(ds)
			pass := passes(t, interceptor.Funcs{
				Get: getOf(ds),
				Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
					err := c.Apply(ctx, o, opts...)
					if generic := o.(interface {
						GetKind() string
						SetGeneration(int64)
					}); generic.GetKind() == "DaemonSet" {
						generic.SetGeneration(2)
					}
					return err
				},
			}, ds.DeepCopy())
			if s := pass(); s.ObservedVersion != "" || progress(s).Reason != "DeployStarted" {
				t.Errorf("version %q, %+v", s.ObservedVersion, progress(s))
			}
		})
	}
}

// The state of the agents decides what the conditions show.
func TestVerdictOnAgents(t *testing.T) {
	for _, row := range []struct {
		name, observed, reason, message string
		state                           agentstatus.State
	}{
		{"all are ready", "1", "Complete", "Application Available", agentstatus.State{Desired: 2, Ready: 2}},
		{"older pods", "1", rolloutStarted, "agents are replaced after a change", agentstatus.State{Desired: 2, Ready: 1, Rolling: true}},
		{"an agent that does not start holds it up", "1", "Degraded", "2 of 3 agents are ready; not ready: a",
			agentstatus.State{Desired: 3, Ready: 2, Rolling: true, Failed: true, Unready: []string{"a"}}},
		{"one does not start while another does", "1", "Degraded", "1 of 3 agents are ready; not ready: a, b",
			agentstatus.State{Desired: 3, Ready: 1, Rolling: true, Left: agentstatus.Startup, Failed: true, Unready: []string{"a", "b"}}},
		{"one does not end", "1", "Degraded", "1 of 2 agents are ready; not ready: a; deleted, and not ended since: pod p on node a",
			agentstatus.State{Desired: 2, Ready: 1, Rolling: true, Failed: true, Unready: []string{"a"}, Endless: []string{"pod p on node a"}}},
		{"one restarts", "1", "Degraded", "1 of 2 agents are ready; not ready: a", agentstatus.State{Desired: 2, Ready: 1, Left: time.Second, Unready: []string{"a"}}},
		{"no pod is created", "1", "Degraded", "0 of 2 agents are ready; without a pod: 2, see the events of DaemonSet " + installed.DaemonSetName,
			agentstatus.State{Desired: 2, Missing: 2, Rolling: true, Failed: true}},
		{"no node", "1", "Degraded", "no node matches spec.workload", agentstatus.State{}},
		{"first agents", "", "DeployStarted", "Started Deployment", agentstatus.State{Desired: 2, Rolling: true}},
		{"first agents, and one failed", "", "DeployStarted", "Started Deployment, which stands still: 1 of 2 agents are ready; not ready: a",
			agentstatus.State{Desired: 2, Ready: 1, Failed: true, Unready: []string{"a"}}},
		{"first agents without a node", "", "DeployStarted", "Started Deployment, which stands still: no node matches spec.workload", agentstatus.State{}},
		{"upgrade", "0", "UpgradeStarted", "Started upgrade to version 1", agentstatus.State{Desired: 2, Ready: 2, Rolling: true}},
		{"upgrade, and one failed", "0", "UpgradeStarted", "Started upgrade to version 1, which stands still: 1 of 2 agents are ready; not ready: a",
			agentstatus.State{Desired: 2, Ready: 1, Rolling: true, Failed: true, Unready: []string{"a"}}},
	} {
		status := v1beta1.HostPathProvisionerStatus{ObservedVersion: row.observed, TargetVersion: "1"}
		v := verdictOf(status, plan{}, agents{State: row.state}, row.state.Complete())
		if v.reason != row.reason || v.message != row.message {
			t.Errorf("%s: %+v, want the reason %s and %q", row.name, v, row.reason, row.message)
		}
	}
}

// While all agents are ready and their DaemonSet does not count them yet, the conditions stay as
// they are: they would show a failure that is none.
func TestStatusWaitsForTheCount(t *testing.T) {
	o := operate(t, resource("hpp", time.Hour, v1beta1.StoragePool{Name: "a", Path: "/a"}))
	o.pass("hpp")
	shown := func(ready int32) string {
		t.Helper()
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: installed.DaemonSetName}}
		if err := o.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		set.Status = appsv1.DaemonSetStatus{ObservedGeneration: set.Generation, DesiredNumberScheduled: 1, CurrentNumberScheduled: 1,
			UpdatedNumberScheduled: 1, NumberReady: ready}
		if err := o.client.Status().Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if ready == 0 {
			o.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent",
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}},
				Spec:   corev1.PodSpec{NodeName: "n"},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
		}
		o.pass("hpp")
		var cr v1beta1.HostPathProvisioner
		if err := o.client.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr); err != nil {
			t.Fatal(err)
		}
		return progress(cr.Status).Reason + progress(cr.Status).Message
	}
	if got := shown(0); !strings.HasSuffix(got, "no node matches spec.workload") { // as after the first pass
		t.Errorf("before the DaemonSet counts the agent: %s", got)
	}
	if got := shown(1); !strings.HasPrefix(got, "Complete") {
		t.Errorf("once it does: %s", got)
	}
}

// getOf returns a Get that answers with this DaemonSet, as a cache that lags behind does.
func getOf(ds *appsv1.DaemonSet) func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
	return func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if generic, ok := o.(*unstructured.Unstructured); ok && generic.GetKind() == "DaemonSet" && key.Name == ds.Name {
			kind := generic.GroupVersionKind()
			defer generic.SetGroupVersionKind(kind)
			var err error
			generic.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(ds)
			return err
		}
		return c.Get(ctx, key, o, opts...)
	}
}
