package claims

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

const gib = int64(1) << 30

// pooled is the Fit of nodes that have the pool, with the space of each.
func pooled(space ...int64) fits {
	return func(i int, _ *storagev1.StorageClass, bytes int64) Fit {
		if i >= len(space) {
			return Fit{Pool: "fast", Lack: noPool}
		}
		return Fit{Pool: "fast", Fits: bytes <= space[i]}
	}
}

func TestNoNodeHasSpace(t *testing.T) {
	noQuotas := func(i int, sc *storagev1.StorageClass, bytes int64) Fit {
		if i == 7 {
			return Fit{Pool: "fast", Lack: "node-7 enforces no quotas"}
		}
		return lacks(i, sc, bytes)
	}
	three := []runtime.Object{publishes("node-0", "csi-fast", 10*gib), publishes("node-1", "csi-fast", 30*gib), publishes("node-2", "csi-fast", 20*gib),
		publishes("node-3", "csi", 900*gib), node("node-0"), node("node-1"), node("node-2"), node("node-3")}
	for name, row := range map[string]struct {
		fit     fits
		bytes   int64
		objects []runtime.Object
		words   []string
	}{
		"no node has the pool":            {lacks, gib, nil, []string{"Warning ProvisioningFailed", noPool}},
		"others publish":                  {lacks, gib, three[3:], []string{noPool}},
		"no node enforces":                {noQuotas, gib, nil, []string{"node-7 enforces no quotas"}}, // its words, not those of the nodes without the pool
		"a node is about to":              {pooled(10 * gib), 20 * gib, nil, []string{noPool}},
		"too large":                       {pooled(10*gib, 30*gib, 20*gib), 100 * gib, three, []string{"100Gi requested", "pool fast", "30Gi, on node node-1", "of 3 with", "requested 107374182400, available 32212254720"}},
		"as large as the largest":         {pooled(10*gib, 30*gib, 20*gib), 30 * gib, three, nil},
		"fits on one that is last":        {lacks, 20 * gib, three, nil},
		"left by a node":                  {pooled(10 * gib), 100 * gib, append([]runtime.Object{publishes("gone", "csi-fast", 900*gib)}, three...), []string{"30Gi, on node node-1", "of 3 with"}},
		"for nodes an autoscaler may add": {pooled(10 * gib), 100 * gib, append([]runtime.Object{ofTemplate(900 * gib)}, three...), []string{"30Gi, on node node-1", "of 3 with"}},
		"pool not ready":                  {pooled(0), gib, []runtime.Object{publishes("node-0", "csi-fast", 0), node("node-0")}, []string{"the most is 0 bytes, on node node-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := startAgents(t, 10, row.fit, row.objects...)
				a.seen(pending("a", "csi-fast", row.bytes))
				time.Sleep(headStart + remoteDelay + spread - time.Second)
				a.wantEvents()
				time.Sleep(spread + unfitSpread + 3*time.Second)
				a.wantEvents(row.words...)
			})
		})
	}
}

// ofTemplate is what is published for nodes that an autoscaler may add, which it makes up from node-0.
func ofTemplate(bytes int64) *storagev1.CSIStorageCapacity {
	o := publishes("template", "csi-fast", bytes)
	o.NodeTopology.MatchLabels = map[string]string{contract.LabelTemplateNode: "true", contract.TopologyNode: "node-0"}
	return o
}

// The agents of a large cluster read what it publishes a few times, however many claims wait.
func TestSpaceIsReadByFew(t *testing.T) {
	const size = 300
	var all []runtime.Object
	for i := range 60 {
		name := fmt.Sprintf("node-%d", i)
		all = append(all, publishes(name, "csi-fast", 10*gib), node(name))
	}
	for name, row := range map[string]struct {
		bytes  int64
		events int
		lists  int32
		after  time.Duration
	}{
		"none has the space":       {100 * gib, 40, 8, 3 * time.Minute},
		"this node has it, or not": {10 * gib, 0, size, 3 * time.Minute}, // at most one list of each agent without the pool
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := startAgents(t, size, pooled(make([]int64, 60)...), all...)
				var claims []*corev1.PersistentVolumeClaim
				for i := range 40 {
					claims = append(claims, pending(fmt.Sprint(i), "csi-fast", row.bytes))
				}
				a.seen(claims...)
				time.Sleep(row.after)
				if got := len(a.events()); got != row.events {
					t.Errorf("%d events, want %d", got, row.events)
				}
				if n := a.lists.Load(); n > row.lists {
					t.Errorf("%d lists, want at most %d", n, row.lists)
				}
			})
		})
	}
}

// expire deletes all events.
func (a *agents) expire() {
	a.t.Helper()
	list, err := a.client.CoreV1().Events("default").List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range list.Items {
		if err := a.client.CoreV1().Events("default").Delete(a.t.Context(), e.Name, metav1.DeleteOptions{}); err != nil {
			a.t.Fatal(err)
		}
	}
}

// An event that the API server has deleted is recorded again, and none of a claim that is bound,
// deleted or forgotten.
func TestUnservedLater(t *testing.T) {
	for name, row := range map[string]struct {
		then func(*agents, *corev1.PersistentVolumeClaim)
		want []string
	}{
		"still waits": {func(*agents, *corev1.PersistentVolumeClaim) {}, []string{noPool}},
		"deleted": {func(a *agents, c *corev1.PersistentVolumeClaim) {
			for _, r := range a.all {
				r.update(c, remote)
			}
		}, nil},
		"listed anew": {func(a *agents, _ *corev1.PersistentVolumeClaim) {
			for _, r := range a.all {
				r.forget()
			}
		}, nil},
		"has space now": {func(a *agents, _ *corev1.PersistentVolumeClaim) {
			if err := a.client.Tracker().Add(publishes("node-1", "csi-fast", gib)); err != nil {
				a.t.Fatal(err)
			}
			if err := a.client.Tracker().Add(node("node-1")); err != nil {
				a.t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := startAgents(t, 5, lacks)
				claim := pending("a", "csi-fast", gib)
				a.seen(claim)
				time.Sleep(2 * time.Minute)
				a.wantEvents(noPool)
				row.then(a, claim)
				a.expire()
				time.Sleep(events.RepeatAfter + 2*time.Minute)
				a.wantEvents(row.want...)
			})
		})
	}
}

// Without an answer nothing is recorded; the agent tries again.
func TestSpaceIsNotKnown(t *testing.T) {
	for name, failure := range map[string]error{
		"forbidden": apierrors.NewForbidden(storagev1.Resource("csistoragecapacities"), "", nil),
		"timeout":   apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "list", storagev1.Resource("csistoragecapacities"), "", "", 0, false),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := startAgents(t, 3, lacks)
				var failing atomic.Bool
				failing.Store(true)
				a.client.PrependReactor("list", "csistoragecapacities", func(clienttesting.Action) (bool, runtime.Object, error) {
					return failing.Load(), nil, failure
				})
				a.seen(pending("a", "csi-fast", gib))
				time.Sleep(2 * time.Minute)
				a.wantEvents()
				failing.Store(false)
				time.Sleep(2 * time.Minute)
				if name == "timeout" {
					a.wantEvents(noPool)
					return
				}
				a.wantEvents() // a role does not change every few seconds
				time.Sleep(events.RepeatAfter)
				a.wantEvents(noPool)
			})
		})
	}
}
