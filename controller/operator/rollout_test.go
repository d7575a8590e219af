package operator

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// rolledOut is the agents' DaemonSet of an older template, with all its pods ready.
func rolledOut() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: daemonSetName, UID: "2", Generation: 1},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "hostpath-provisioner"}}},
		Status:     appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2},
	}
}

// A pass that writes the DaemonSet, and reads it from a cache that does not have the write yet, does not take the older agents for
// those that it asked for.
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
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if generic, ok := o.(*unstructured.Unstructured); ok && generic.GetKind() == "DaemonSet" && key.Name == ds.Name {
						kind := generic.GroupVersionKind()
						defer generic.SetGroupVersionKind(kind)
						var err error
						generic.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(ds)
						return err
					}
					return c.Get(ctx, key, o, opts...)
				},
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

// An agent has two minutes from its creation, or from when it ceased to be ready.
func TestAgentThatDoesNotStart(t *testing.T) {
	now := time.Now()
	pod := func(made, changed time.Duration, status corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "agent", CreationTimestamp: metav1.NewTime(now.Add(-made))},
			Spec:       corev1.PodSpec{NodeName: "node"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-changed))}}},
		}
	}
	for _, row := range []struct {
		name     string
		pods     []*corev1.Pod
		starting time.Duration
		failed   bool
	}{
		{"is ready", []*corev1.Pod{pod(time.Hour, time.Hour, corev1.ConditionTrue)}, 0, false},
		{"new", []*corev1.Pod{pod(time.Minute, time.Minute, corev1.ConditionFalse)}, time.Minute, false},
		{"the first counts", []*corev1.Pod{pod(time.Minute, time.Minute, corev1.ConditionFalse),
			pod(30*time.Second, 30*time.Second, corev1.ConditionFalse)}, time.Minute, false},
		{"restarts", []*corev1.Pod{pod(time.Hour, 30*time.Second, corev1.ConditionFalse)}, 90 * time.Second, false},
		{"never started", []*corev1.Pod{pod(3*time.Minute, 3*time.Minute, corev1.ConditionFalse)}, 0, true},
	} {
		a := agents{}
		for _, p := range row.pods {
			a.add(p, now)
		}
		if a.starting != row.starting || a.failed != row.failed {
			t.Errorf("%s: starting %v, failed %v", row.name, a.starting, a.failed)
		}
	}
	a := agents{}
	ends := pod(time.Hour, time.Hour, corev1.ConditionTrue)
	ends.DeletionTimestamp = ptr.To(metav1.NewTime(now.Add(-time.Minute)))
	if a.add(ends, now); len(a.nodes) != 0 || a.ready != 0 || a.starting != time.Minute || len(a.unready) != 1 {
		t.Errorf("a pod that ends: %+v", a)
	}
	a = agents{}
	unplaced := pod(time.Minute, time.Minute, corev1.ConditionFalse)
	unplaced.Spec.NodeName = ""
	if a.add(unplaced, now); len(a.nodes) != 0 || len(a.unready) != 1 || a.starting == 0 {
		t.Errorf("a pod without a node: %+v", a)
	}
}

// An installation is complete only if the DaemonSet and its pods agree on that, and not ready only if an agent is not.
func TestCountsOfTheDaemonSetAndItsPods(t *testing.T) {
	for _, row := range []struct {
		name           string
		updated, ready int32
		pods           string // r for ready, u for not ready, e for one that ends
		before, want   string // reasons; none if the pass does not judge
	}{
		{"all are ready", 2, 2, "rr", "RolloutStarted", "Complete"},
		{"a pod ends", 2, 2, "re", "RolloutStarted", "RolloutStarted"},
		{"a pod is gone", 2, 2, "r", "RolloutStarted", "RolloutStarted"},
		{"the new one is not counted yet", 2, 1, "rr", "RolloutStarted", ""},
		{"one is not ready, and not counted yet", 2, 2, "ru", "Complete", "Degraded"},
		{"the new one starts", 2, 1, "ru", "RolloutStarted", "RolloutStarted"},
		{"one restarts", 2, 1, "ru", "Complete", "Degraded"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ds := rolledOut()
			ds.Status.CurrentNumberScheduled, ds.Status.UpdatedNumberScheduled, ds.Status.NumberReady = 2, row.updated, row.ready
			objects := []client.Object{ds}
			for i, state := range row.pods {
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-" + string(rune('a'+i)), CreationTimestamp: metav1.Now(),
						OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: ptr.To(true)}}},
					Spec:   corev1.PodSpec{NodeName: "node-" + string(rune('a'+i))},
					Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
				}
				switch state {
				case 'u':
					pod.Status.Conditions[0].Status = corev1.ConditionFalse
				case 'e':
					pod.DeletionTimestamp, pod.Finalizers = ptr.To(metav1.Now()), []string{"kubelet/ends-it"}
				}
				objects = append(objects, pod)
			}
			r := &Reconciler{Settings: Settings{Namespace: "ns"}, Now: time.Now,
				Client: fake.NewClientBuilder().WithScheme(kinds(t)).WithObjects(objects...).Build()}
			a, err := r.agents(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			a.finishRollout(row.before)
			cr := &v1beta1.HostPathProvisioner{Status: v1beta1.HostPathProvisionerStatus{ObservedVersion: "v1"}}
			r.Version = "v1"
			reason := progress(r.judge(cr, layout{}, a)).Reason
			if a.counting {
				reason = ""
			}
			if reason != row.want {
				t.Errorf("%q of %+v, want %q", reason, a, row.want)
			}
		})
	}
}
