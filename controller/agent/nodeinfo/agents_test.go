package nodeinfo

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// The number of agents is read once an hour at most; what cannot be read is unknown, which is 0.
func TestAgentsAreCountedRarely(t *testing.T) {
	set := func(name string, n int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: n}}
	}
	client := fake.NewClientset(set("agent-csi", 5000), set("agent", 3))
	asked, allowed := 0, true
	client.PrependReactor("list", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		if !allowed {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "", nil)
		}
		return false, nil, nil
	})
	synctest.Test(t, func(t *testing.T) {
		a := NewAgents(client, "ns", "agent-csi-x7k2p")
		for range 100 {
			if n := a.Count(t.Context()); n != 5000 {
				t.Fatal(n)
			}
			time.Sleep(time.Minute)
		}
		if asked != 2 {
			t.Errorf("%d requests in 100 minutes", asked)
		}
		allowed, asked = false, 0
		time.Sleep(time.Hour)
		for range 10 {
			if n := a.Count(t.Context()); n != 0 || asked != 1 {
				t.Errorf("%d agents that may not be counted, %d requests", n, asked)
			}
		}
		allowed, asked = true, 0
		for _, pod := range []string{"", "static", "gone-x7k2p"} {
			if n := NewAgents(client, "ns", pod).Count(t.Context()); n != 0 {
				t.Errorf("pod %q: %d agents", pod, n)
			}
		}
		if asked != 1 {
			t.Errorf("%d requests for pods of no DaemonSet", asked)
		}
	})
}
