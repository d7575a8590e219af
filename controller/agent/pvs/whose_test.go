package pvs

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

const labelPatch = `{"metadata":{"labels":{"hostpath-provisioner.kubevirt.io/node":"node-01"},"uid":"pv-uid"}}`

// recorded creates the volume of a PV, whose record names it.
func recorded(t *testing.T, c *PVs, pv *corev1.PersistentVolume) *volume.Pool {
	t.Helper()
	pool, name := c.Names(pv)
	if _, err := pool.Create(volume.Spec{Name: name, Bytes: 1, PV: pv.Name, Owner: ownerOf(pv), Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	return pool
}

// server replaces the API server by one that also answers lists of nodes with a status, or with
// these, and returns the patches that it gets.
func server(t *testing.T, c *PVs, nodes any, objects ...metav1.Object) *[]string {
	t.Helper()
	patches, others := []string{}, apitest.Objects("node-01", objects...)
	setAnswer(t, c, func(r *http.Request) (int, any) {
		switch {
		case r.Method == http.MethodPatch:
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			patches = append(patches, string(text))
			return http.StatusOK, &corev1.PersistentVolume{}
		case r.URL.Path == "/api/v1/nodes":
			return apitest.Paths(map[string]any{"nodes": nodes})(r)
		}
		return others(r)
	})
	return &patches
}

func nodeNamed(name, hostname string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: hostname}}}
}

// A PV whose label is overwritten leaves the watch. It gets the label again if its volume is this
// node's.
func TestLabelIsWrittenAgain(t *testing.T) {
	for what, row := range map[string]struct {
		class string
		edit  func(*testing.T, *PVs, *corev1.PersistentVolume)
		want  bool
	}{
		"CSI, another node's":      {"csi", func(*testing.T, *PVs, *corev1.PersistentVolume) {}, true},
		"hostPath, another node's": {"wait", func(*testing.T, *PVs, *corev1.PersistentVolume) {}, true},
		"no label":                 {"csi", func(_ *testing.T, _ *PVs, pv *corev1.PersistentVolume) { pv.Labels = nil }, true},
		"being deleted": {"csi", func(_ *testing.T, _ *PVs, pv *corev1.PersistentVolume) {
			now := metav1.Now()
			pv.DeletionTimestamp, pv.Finalizers = &now, []string{contract.Finalizer}
		}, true},
		"written again by another": {"csi", func(_ *testing.T, _ *PVs, pv *corev1.PersistentVolume) { pv.Labels[contract.LabelNode] = "node-01" }, false},
		"of another driver":        {"csi", func(_ *testing.T, _ *PVs, pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "example.com" }, false},
		"the affinity is another node's": {"csi", func(_ *testing.T, _ *PVs, pv *corev1.PersistentVolume) {
			affinityValues(pv)[0] = "node-02"
		}, false},
		"the annotation, too": {"wait", func(_ *testing.T, _ *PVs, pv *corev1.PersistentVolume) {
			pv.Annotations[contract.AnnProvisionOnNode] = "node-02"
		}, false},
		"another PV has the volume": {"csi", func(_ *testing.T, _ *PVs, pv *corev1.PersistentVolume) { pv.Name = "other" }, false},
		"the pool is away": {"csi", func(t *testing.T, c *PVs, pv *corev1.PersistentVolume) {
			pool, _ := c.Names(pv)
			if err := pool.Close(); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		c := newPVs(t)
		pv := validPV(c, row.class)
		pv.UID, pv.Labels[contract.LabelNode] = "pv-uid", "node-02"
		recorded(t, c, pv)
		row.edit(t, c, pv)
		patches := server(t, c, http.StatusForbidden, pv, nodeNamed("node-02", "host-b"))
		err := c.sync(t.Context(), pv.Name)
		if (err != nil) != (what == "the pool is away") {
			t.Errorf("%s: %v", what, err)
		}
		if got := slices.Equal(*patches, []string{labelPatch}); got != row.want || !row.want && len(*patches) > 0 {
			t.Errorf("%s: patches %q", what, *patches)
		}
	}
}

// The watch reports a PV that lost the label as deleted, and that is enough.
func TestVanishedPVIsHandled(t *testing.T) {
	c := newPVs(t)
	pv := validPV(c, "csi")
	pv.UID = "pv-uid"
	recorded(t, c, pv)
	overwritten := pv.DeepCopy()
	overwritten.Labels[contract.LabelNode] = "node-02"
	client, events := fake.NewClientset(overwritten), watch.NewFake()
	client.PrependReactor("list", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.PersistentVolumeList{}, nil
	})
	client.PrependWatchReactor("persistentvolumes", clienttesting.DefaultWatchReactor(events, nil))
	c.Client = client
	claims := informers.NewSharedInformerFactory(client, 0).Core().V1().PersistentVolumeClaims().Informer()
	if err := c.Watch(noClaims{}, claims); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go c.informer.RunWithContext(ctx)
	// The informer may list, or have the watch begin with what there is.
	events.Add(pv)
	events.Action(watch.Bookmark, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	name, _ := c.queue.Get()
	c.queue.Done(name) // as if it was handled while it had the label
	events.Delete(pv)
	for c.Saved(pv.Name) != nil {
		time.Sleep(time.Millisecond)
	}
	go c.runWorker(ctx)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		now, err := client.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{})
		if err == nil && now.Labels[contract.LabelNode] == "node-01" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the label is %q, %v", now.Labels[contract.LabelNode], err)
		}
	}
}

// A PV whose label is overwritten while its pool's disk is away is expected until the API server has said
// that it is gone: another pool would be made on the disk below.
func TestVanishedPVIsExpected(t *testing.T) {
	for what, row := range map[string]struct {
		edit func(*corev1.PersistentVolume)
		away bool // the disk
		want bool
	}{
		"another node's label":             {func(pv *corev1.PersistentVolume) { pv.Labels[contract.LabelNode] = "node-02" }, true, true},
		"no label":                         {func(pv *corev1.PersistentVolume) { pv.Labels = nil }, true, true},
		"it is gone":                       {func(pv *corev1.PersistentVolume) { pv.Name = "another" }, true, false},
		"another node's, and the affinity": {func(pv *corev1.PersistentVolume) { pv.Labels = nil; affinityValues(pv)[0] = "node-02" }, false, false},
	} {
		c := newPVs(t)
		pv := validPV(c, "csi")
		pv.UID, pv.Annotations[contract.AnnPool] = "pv-uid", "id-a"
		pool, _ := c.Names(pv)
		if err := c.informer.GetStore().Add(pv); err != nil {
			t.Fatal(err)
		}
		expected := func() bool { return slices.Equal(c.Expected(pool).IDs, []string{"id-a"}) }
		if !expected() {
			t.Fatal("not expected")
		}
		if row.away {
			if err := pool.Close(); err != nil {
				t.Fatal(err)
			}
		}
		now := pv.DeepCopy()
		row.edit(now)
		c.Client = fake.NewClientset(now, nodeNamed("node-02", "host-b"))
		c.Events = events.New(c.Client, c.Node.Name())
		if err := c.informer.GetStore().Delete(pv); err != nil {
			t.Fatal(err)
		}
		if !expected() || c.queue.Len() != 1 {
			t.Errorf("%s: nobody asked, and it is not expected, or will not be asked for", what)
		}
		_ = c.sync(t.Context(), pv.Name)
		c.Events.Close()
		if expected() != row.want {
			t.Errorf("%s: expected %v", what, !row.want)
		}
	}
}

// The agent deleted the PV itself: the API server is not asked about it, but about the next of its name.
func TestVanishedPVWasDeleted(t *testing.T) {
	c := newPVs(t)
	client := fake.NewClientset()
	c.Client = client
	c.Deleted("pv")
	for i, want := range []int{0, 1} {
		client.ClearActions()
		if err := c.syncVanished(t.Context(), "pv"); err != nil || len(client.Actions()) != want {
			t.Errorf("time %d: %v, %d requests, want %d", i, err, len(client.Actions()), want)
		}
	}
}

// A PV of another provisioner changed while the watch had no selector, and then the agent was
// permitted to patch PVs; or the volume was given back to that provisioner.
func TestVanishedPVOfAnother(t *testing.T) {
	for what, givenBack := range map[string]bool{"of another node": false, "given back": true} {
		c := newPVs(t)
		pv := validPV(c, "wait")
		pv.UID, pv.Labels = "pv-uid", nil
		if givenBack {
			recorded(t, c, pv)
		} else {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"node-02"}
		}
		pv.Annotations[contract.AnnProvisionedBy] = contract.LocalPathProvisioner
		client := fake.NewClientset(pv)
		c.Client, c.Events = client, events.New(client, c.Node.Name())
		err := c.syncVanished(t.Context(), pv.Name)
		c.Events.Close()
		for _, a := range client.Actions() {
			if err != nil || a.GetVerb() != "get" {
				t.Errorf("%s: %v, %+v, want only a look at it", what, err, a)
			}
		}
	}
}

// The hostname label of the node was changed: its PVs require the former one.
func TestHostnameChanged(t *testing.T) {
	list := func(nodes ...corev1.Node) any {
		return &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: nodes}
	}
	for what, row := range map[string]struct {
		nodes any // the answer to a list
		other *corev1.Node
		want  string // part of the error; "" for none
	}{
		"no node has it":             {list(), nil, ""},
		"this node has it again":     {list(*nodeNamed("node-01", "former")), nil, ""},
		"another node has it":        {list(*nodeNamed("node-02", "former")), nil, "is another node"},
		"another node's name":        {list(), nodeNamed("former", "x"), "is another node"},
		"listed as a former one":     {http.StatusForbidden, nil, ""},
		"the list is forbidden":      {http.StatusForbidden, nil, `{"data":{"node-01":"host-a,former"}}`},
		"the API server has trouble": {http.StatusInternalServerError, nil, "may be another node"},
	} {
		c := newPVs(t)
		pv := validPV(c, "wait")
		pv.UID, pv.Spec.PersistentVolumeReclaimPolicy, pv.Status.Phase = "pv-uid", corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased
		pool := recorded(t, c, pv)
		affinityValues(pv)[0] = "former"
		objects := []metav1.Object{pv}
		if row.other != nil {
			objects = append(objects, row.other)
		}
		server(t, c, row.nodes, objects...)
		listed := map[string]string{"node-01": "host-a", "node-02": "host-b,former"}
		if what == "listed as a former one" {
			listed["node-01"] = "host-a, older, former"
		}
		here := apitest.Node("node-01", "host-a", "c")
		info := nodeinfo.New(fake.NewClientset(here[0].(*corev1.Node), here[1].(*corev1.Namespace), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: contract.HostnamesNamespace, Name: contract.HostnamesConfigMap}, Data: listed,
		}), "node-01")
		if err := info.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Node = info
		for i, b := range backendsOf(t, info, c.Pools) {
			c.backends[i] = c.backend(b)
		}
		err := c.Delete(t.Context(), pv)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
		if _, err := pool.Get(pv.Name); (err != nil) != (row.want == "") {
			t.Errorf("%s: the volume is kept: %v", what, err == nil)
		}
	}
}
