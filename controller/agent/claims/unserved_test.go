package claims

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// agents are the recorders of a cluster's agents, node-0 and so on. They run in a bubble.
type agents struct {
	t       *testing.T
	client  *fake.Clientset
	all     []*unservedRecorder
	placers []*placer
	lists   atomic.Int32 // of capacity objects
	nodes   atomic.Int32 // reads of nodes
	patches atomic.Int32 // of claims
}

// fits is the Fit of a node, by the number of its agent.
type fits func(agent int, sc *storagev1.StorageClass, bytes int64) Fit

// startAgents runs agents until the test's context ends.
func startAgents(t *testing.T, n int, fit fits, objects ...runtime.Object) *agents {
	a := &agents{t: t, client: fake.NewClientset(objects...)}
	count(a.client, "list", "csistoragecapacities", &a.lists)
	count(a.client, "get", "nodes", &a.nodes)
	count(a.client, "patch", "persistentvolumeclaims", &a.patches)
	for i := range n {
		node := fmt.Sprintf("node-%d", i)
		recorder := events.New(a.client, node)
		p := testPlacer()
		p.node = node
		r := newUnservedRecorder(&Config{
			Client: a.client, Node: node, Events: recorder, Refusal: func(*storagev1.StorageClass) string { return "" },
			Space: &Space{
				Namespace: "agents", Provisioner: contract.CSIProvisioner,
				HasPool: func(sc *storagev1.StorageClass) bool { return fit(i, sc, 0) != Fit{Pool: "fast", Lack: noPool} },
				Fit:     func(sc *storagev1.StorageClass, bytes int64) Fit { return fit(i, sc, bytes) },
			},
		}, classtest.Class)
		r.started = time.Now().Add(-time.Hour)
		a.all, a.placers = append(a.all, r), append(a.placers, p)
		go r.run(t.Context())
		context.AfterFunc(t.Context(), recorder.Close)
	}
	return a
}

// count has the requests counted.
func count(client *fake.Clientset, verb, resource string, n *atomic.Int32) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		n.Add(1)
		return false, nil, nil
	})
}

// seen has all agents see the claims.
func (a *agents) seen(claims ...*corev1.PersistentVolumeClaim) {
	for i, r := range a.all {
		for _, c := range claims {
			r.update(c, a.placers[i].place(c))
		}
	}
}

// events returns the reasons and messages of all events.
func (a *agents) events() (all []string) {
	a.t.Helper()
	list, err := a.client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range list.Items {
		all = append(all, e.Type+" "+e.Reason+" "+e.Message)
	}
	return all
}

// wantEvents checks that there is one event that has all the words, none if there are no words.
func (a *agents) wantEvents(words ...string) {
	a.t.Helper()
	got := a.events()
	if len(words) == 0 {
		if len(got) > 0 {
			a.t.Errorf("events %q, want none", got)
		}
		return
	}
	if len(got) != 1 {
		a.t.Fatalf("events %q, want one", got)
	}
	for _, word := range words {
		if !strings.Contains(got[0], word) {
			a.t.Errorf("event %q, want words %q", got[0], word)
		}
	}
}

const noPool = `no node has a pool "fast"`

// lacks is the Fit of a node without the pool.
func lacks(int, *storagev1.StorageClass, int64) Fit { return Fit{Pool: "fast", Lack: noPool} }

// pending is a claim that requests the bytes.
func pending(uid, className string, bytes int64, annotations ...string) *corev1.PersistentVolumeClaim {
	c := classtest.Claim(uid, className, "", annotations...)
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)}
	return c
}

// publishes is what a node publishes for a class.
func publishes(node, className string, bytes int64) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:        metav1.ObjectMeta{Namespace: "agents", Name: node + "-" + className},
		StorageClassName:  className,
		NodeTopology:      &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: node}},
		MaximumVolumeSize: resource.NewQuantity(bytes, resource.BinarySI),
	}
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// The scheduler chose a node that does not exist. One agent gives the claim back, or records an
// event if it may not.
func TestChosenNodeMissing(t *testing.T) {
	const gone = "node-99"
	for name, row := range map[string]struct {
		chosen  string
		claim   func(*corev1.PersistentVolumeClaim) // at the API server
		refuse  error                               // of the patch, and of the update
		patches int32
		left    string // the choice, at the end
		words   []string
	}{
		"given back":      {gone, nil, nil, 1, "", []string{"Normal NodeGone", gone, "the scheduler chooses again"}},
		"forbidden":       {gone, nil, apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "claim-a", nil), 1, gone, []string{"Warning ProvisioningFailed", gone, "kubectl -n default annotate pvc claim-a volume.kubernetes.io/selected-node-"}},
		"exists":          {"node-1", nil, nil, 0, "node-1", nil},
		"no valid name":   {"a/b", nil, nil, 1, "", []string{"NodeGone", "a/b"}},
		"too long a name": {strings.Repeat("n", 300), nil, nil, 1, "", []string{"NodeGone", "nnn"}},
		"bound since":     {gone, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }, nil, 0, gone, nil},
		"chosen again":    {gone, func(c *corev1.PersistentVolumeClaim) { c.Annotations[contract.AnnSelectedNode] = "node-1" }, nil, 0, "node-1", nil},
		"another claim":   {gone, func(c *corev1.PersistentVolumeClaim) { c.UID = "b" }, nil, 0, gone, nil},
		"being deleted":   {gone, func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, nil, 0, gone, nil},
	} {
		for _, className := range []string{"csi", "wait"} {
			t.Run(name+" "+className, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					claim := pending("a", className, 1, contract.AnnSelectedNode, row.chosen)
					now := claim.DeepCopy()
					if row.claim != nil {
						row.claim(now)
					}
					a := startAgents(t, 20, lacks, now, node("node-1"))
					if row.refuse != nil {
						for verb, n := range map[string]int32{"patch": 1, "update": 0} {
							a.client.PrependReactor(verb, "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
								a.patches.Add(n)
								return true, nil, row.refuse
							})
						}
					}
					a.seen(claim)
					time.Sleep(headStart + remoteDelay - time.Second)
					if n := a.nodes.Load(); n > 0 {
						t.Errorf("%d reads before the operator and the chosen node had time", n)
					}
					time.Sleep(spread + 2*time.Second)
					a.wantEvents(row.words...)
					if n := a.patches.Load(); n != row.patches {
						t.Errorf("%d patches of the claim, want %d", n, row.patches)
					}
					if c, err := a.client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "claim-a", metav1.GetOptions{}); err != nil || c.Annotations[contract.AnnSelectedNode] != row.left {
						t.Errorf("chosen node %q, %v; want %q", c.Annotations[contract.AnnSelectedNode], err, row.left)
					}
				})
			})
		}
	}
}

// A claim that names a PV which does not exist gets one event, also if it is placed on one of the
// agents' nodes.
func TestPVMissing(t *testing.T) {
	for name, row := range map[string]struct {
		edit  func(*corev1.PersistentVolumeClaim)
		there bool // the PV
		words []string
	}{
		"missing": {nil, false, []string{"Warning ProvisioningFailed", `PV "db"`, "does not exist", "restore that PV"}},
		"placed here": {func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{contract.AnnSelectedNode: "node-1"}
		}, false, []string{`PV "db"`}},
		"exists":            {nil, true, nil},
		"bound":             {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimBound }, false, nil},
		"lost":              {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, false, nil},
		"of others":         {func(c *corev1.PersistentVolumeClaim) { *c.Spec.StorageClassName = "theirs" }, false, nil},
		"without a class":   {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, false, nil},
		"single node's":     {func(c *corev1.PersistentVolumeClaim) { *c.Spec.StorageClassName = "single" }, false, []string{`PV "db"`}},
		"is being deleted":  {func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false, nil},
		"no valid name":     {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "a/b" }, false, []string{`PV "a/b"`}},
		"class comes later": {func(c *corev1.PersistentVolumeClaim) { *c.Spec.StorageClassName = "later" }, false, nil}, // held, see TestFilterHoldsPVs
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var objects []runtime.Object
				if row.there {
					objects = append(objects, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "db"}})
				}
				a := startAgents(t, 5, lacks, objects...)
				claim := pending("a", "csi", 1)
				claim.Spec.VolumeName = "db"
				if row.edit != nil {
					row.edit(claim)
				}
				a.seen(claim)
				time.Sleep(time.Minute)
				a.wantEvents(row.words...)
			})
		})
	}
}

// A claim of a class that is created later and that names a PV is placed like the others.
func TestFilterHoldsPVs(t *testing.T) {
	claim := classtest.Claim("a", "later", "")
	claim.Spec.VolumeName = "db"
	p := testPlacer()
	if where := p.place(claim); where != unknown {
		t.Errorf("placed %d before its class exists", where)
	}
	h, ok := hold(claim)
	p.class = func(string) *storagev1.StorageClass { return classtest.Class("csi") }
	if where := p.place(h.claim("a")); !ok || where != remoteByPV {
		t.Errorf("held %v, then placed %d", ok, where)
	}
}
