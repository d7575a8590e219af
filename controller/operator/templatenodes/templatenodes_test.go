package templatenodes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
)

// world is what a reconciler finds: a resource with two template nodes of one pool, and two classes
// of it. A row changes it.
type world struct {
	cr      *v1beta1.HostPathProvisioner
	classes []*storagev1.StorageClass
	there   []*storagev1.CSIStorageCapacity // at the API server
	cached  []*storagev1.CSIStorageCapacity // nil: the same
	other   string
	fails   error // of applies
}

func newWorld() *world {
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1", Finalizers: []string{"test/keeps"}},
		Spec: v1beta1.HostPathProvisionerSpec{TemplateNodes: []v1beta1.TemplateNode{
			{Name: "big", Pool: "local", Capacity: resource.MustParse("2Ti"), NodeSelector: map[string]v1beta1.LabelValue{"group": "big"}},
			{Name: "small", Pool: "local", Capacity: resource.MustParse("100Gi"), NodeSelector: map[string]v1beta1.LabelValue{"group": "small"}},
		}}}
	return &world{cr: cr, classes: []*storagev1.StorageClass{class("fast", "local"), class("slow", "local"), class("other", "archive")}}
}

func class(name, pool string) *storagev1.StorageClass {
	delayed := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: contract.CSIProvisioner,
		VolumeBindingMode: &delayed, Parameters: map[string]string{contract.StoragePool: pool}}
}

// published has everything there that the resource asks for.
func (w *world) published() {
	w.there, _ = desired(w.cr, w.values(), "agents", map[string]string{"a": "b"})
	for i, o := range w.there {
		o.UID, o.ResourceVersion = "u", fmt.Sprint(i+1)
	}
}

func (w *world) values() (all []storagev1.StorageClass) {
	for _, c := range w.classes {
		all = append(all, *c)
	}
	return all
}

// short returns the name of an object without its hash.
func short(name string) string { return name[:strings.LastIndex(name, ".")] }

// run reconciles once, and returns the writes and the events.
func (w *world) run(t *testing.T) (did []string, recorded []string, err error) {
	t.Helper()
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1beta1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	cached := w.cached
	if cached == nil {
		cached = w.there
	}
	build := fake.NewClientBuilder().WithScheme(known)
	for _, c := range w.classes {
		build = build.WithObjects(c)
	}
	if w.cr.UID != "" {
		build = build.WithObjects(w.cr.DeepCopy())
	}
	for _, o := range cached {
		build = build.WithObjects(o.DeepCopy())
	}
	live := kubefake.NewClientset()
	for _, o := range w.there {
		if err := live.Tracker().Add(o.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	if w.fails != nil {
		live.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, w.fails })
	}
	recorder := events.NewFakeRecorder(100)
	r := &Reconciler{Namespace: "agents", Cache: build.Build(), Live: live, Events: recorder, Owner: "operator",
		Labels:    map[string]string{"a": "b"},
		Installed: installedtest.Beside(w.other)}
	for range 2 { // the second changes nothing more, but for what the cache does not show
		_, err = r.Reconcile(t.Context(), reconcile.Request{})
		if did == nil {
			did = writes(t, live.Actions())
		}
	}
	for len(recorder.Events) > 0 {
		recorded = append(recorded, <-recorder.Events)
	}
	return did, recorded, err
}

func writes(t *testing.T, actions []clienttesting.Action) (all []string) {
	t.Helper()
	for _, a := range actions {
		switch a := a.(type) {
		case clienttesting.PatchActionImpl:
			if a.PatchOptions.FieldManager != "operator" || a.PatchOptions.Force == nil || !*a.PatchOptions.Force {
				t.Errorf("applied as %+v", a.PatchOptions)
			}
			all = append(all, "apply "+short(a.GetName()))
		case clienttesting.DeleteActionImpl:
			if p := a.DeleteOptions.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
				t.Error("a deletion without a precondition")
			}
			all = append(all, "delete "+short(a.GetName()))
		default:
			t.Errorf("%s %s", a.GetVerb(), a.GetResource())
		}
	}
	slices.Sort(all)
	return all
}

func TestReconcile(t *testing.T) {
	everything := []string{"apply template.big.fast", "apply template.big.slow", "apply template.small.fast", "apply template.small.slow"}
	gone := []string{"delete template.big.fast", "delete template.big.slow", "delete template.small.fast", "delete template.small.slow"}
	for name, row := range map[string]struct {
		before func(*world) // changes what is published
		spoil  func(*world) // changes what is asked for, after it was published
		want   []string
	}{
		"nothing there":    {before: func(*world) {}, want: everything},
		"published":        {},
		"no template node": {spoil: func(w *world) { w.cr.Spec.TemplateNodes = nil }, want: gone},
		"no resource":      {spoil: func(w *world) { w.cr = &v1beta1.HostPathProvisioner{} }, want: gone},
		"being deleted": {spoil: func(w *world) {
			w.cr.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, want: gone},
		"another installation": {before: func(w *world) { w.other = "elsewhere" }},
		"one template node less": {spoil: func(w *world) { w.cr.Spec.TemplateNodes = w.cr.Spec.TemplateNodes[1:] },
			want: []string{"delete template.big.fast", "delete template.big.slow"}},
		"another size": {spoil: func(w *world) { w.cr.Spec.TemplateNodes[1].Capacity = resource.MustParse("200Gi") },
			want: []string{"apply template.small.fast", "apply template.small.slow"}},
		"the same size in other words": {spoil: func(w *world) { w.cr.Spec.TemplateNodes[0].Capacity = resource.MustParse("2048Gi") }},
		"another group": {spoil: func(w *world) { w.cr.Spec.TemplateNodes[1].NodeSelector["group"] = "medium" },
			want: []string{"apply template.small.fast", "apply template.small.slow", "delete template.small.fast", "delete template.small.slow"}},
		"another class": {spoil: func(w *world) { w.classes = append(w.classes, class("new", "local")) },
			want: []string{"apply template.big.new", "apply template.small.new"}},
		"a class less": {spoil: func(w *world) { w.classes = w.classes[1:] },
			want: []string{"delete template.big.fast", "delete template.small.fast"}},
		"a class of another pool": {spoil: func(w *world) { w.classes[0] = class("fast", "archive") },
			want: []string{"delete template.big.fast", "delete template.small.fast"}},
		"a class of another driver": {spoil: func(w *world) { w.classes[0].Provisioner = contract.HostPathProvisioner },
			want: []string{"delete template.big.fast", "delete template.small.fast"}},
		"edited":                 {spoil: func(w *world) { q := resource.MustParse("1Pi"); w.there[0].MaximumVolumeSize = &q }, want: everything[:1]},
		"without its size":       {spoil: func(w *world) { w.there[0].Capacity = nil }, want: everything[:1]},
		"without a label":        {spoil: func(w *world) { delete(w.there[0].Labels, labelTemplate) }, want: everything[:1]},
		"without its owner":      {spoil: func(w *world) { w.there[0].OwnerReferences = nil }, want: everything[:1]},
		"of an earlier resource": {spoil: func(w *world) { w.cr.UID = "2" }, want: everything},
		"its name has another topology": {spoil: func(w *world) {
			w.there[0].NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
		}, want: gone[:1]},
		"being deleted by another": {spoil: func(w *world) {
			w.there[0].Capacity = nil
			w.there[0].DeletionTimestamp, w.there[0].Finalizers = &metav1.Time{Time: time.Now()}, []string{"a/b"}
		}},
		"of an agent": {spoil: func(w *world) {
			w.cr.Spec.TemplateNodes = nil
			w.there = []*storagev1.CSIStorageCapacity{{ObjectMeta: metav1.ObjectMeta{Name: "node-01.fast.0", Namespace: "agents",
				Labels: map[string]string{labelDriver: contract.CSIProvisioner, labelTemplate: "big"}},
				NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: "node-01"}}}}
		}},
		"of a user": {spoil: func(w *world) {
			w.cr.Spec.TemplateNodes = nil
			w.there = []*storagev1.CSIStorageCapacity{{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "agents"},
				NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.LabelTemplateNode: "true"}}}}
		}},
		"in another namespace": {spoil: func(w *world) {
			w.cr.Spec.TemplateNodes = nil
			for _, o := range w.there {
				o.Namespace = "tenant"
			}
		}},
		"the cache is behind a deletion": {spoil: func(w *world) {
			w.cached, w.there = w.there, nil
			w.cr.Spec.TemplateNodes = nil
		}, want: gone},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if row.before != nil {
				row.before(w)
			} else {
				w.published()
			}
			if row.spoil != nil {
				row.spoil(w)
			}
			if did, recorded, err := w.run(t); err != nil || !slices.Equal(did, row.want) {
				t.Errorf("did %q, %v; want %q; events %q", did, err, row.want, recorded)
			}
		})
	}
}

// The written object is what the cluster-autoscaler's simulation looks for.
func TestObject(t *testing.T) {
	all, unused := desired(newWorld().cr, newWorld().values()[:1], "agents", map[string]string{"a": "b"})
	if len(all) != 2 || len(unused) > 0 {
		t.Fatalf("%d objects, %q", len(all), unused)
	}
	got, err := yaml.Marshal(toApply(all[1]))
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: storage.k8s.io/v1
capacity: 100Gi
kind: CSIStorageCapacity
maximumVolumeSize: 100Gi
metadata:
  labels:
    a: b
    csi.storage.k8s.io/drivername: kubevirt.io.hostpath-provisioner
    hostpath-provisioner.kubevirt.io/template-node: small
  name: NAME
  namespace: agents
  ownerReferences:
  - apiVersion: hostpathprovisioner.kubevirt.io/v1beta1
    kind: HostPathProvisioner
    name: hpp
    uid: "1"
nodeTopology:
  matchLabels:
    cluster-autoscaler.kubernetes.io/template-node: "true"
    group: small
storageClassName: fast
`
	if got := strings.Replace(string(got), all[1].Name, "NAME", 1); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNames(t *testing.T) {
	longest := &v1beta1.TemplateNode{Name: strings.Repeat("t", 50), Pool: "local", Capacity: resource.MustParse("1Gi")}
	seen := map[string]bool{}
	for _, name := range []string{strings.Repeat("c", 149) + "." + strings.Repeat("c", 103), strings.Repeat("c", 150) + "." + strings.Repeat("c", 102)} {
		for _, group := range []v1beta1.LabelValue{"", "a", "b"} {
			longest.NodeSelector = map[string]v1beta1.LabelValue{"group": group}
			o := object(longest, name)
			if wrong := validation.IsDNS1123Subdomain(o.Name); len(wrong) > 0 || seen[o.Name] {
				t.Errorf("%s: %q, there already %v", o.Name, wrong, seen[o.Name])
			}
			seen[o.Name] = true
		}
	}
}

func TestEvents(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(*world)
		want  []string // of each event, in their order
	}{
		"published": {func(w *world) {
			w.cr.Spec.TemplateNodes = w.cr.Spec.TemplateNodes[:1]
			w.classes = w.classes[:1]
			w.published()
		}, nil},
		"created": {func(w *world) { w.cr.Spec.TemplateNodes = w.cr.Spec.TemplateNodes[:1]; w.classes = w.classes[:1] }, []string{"CreateResourceSuccess Created CSIStorageCapacity template.big.fast", "CreateResourceSuccess"}},
		"no class": {func(w *world) { w.classes = w.classes[2:] }, []string{"Warning TemplateNodeUnused no capacity is published for template nodes big, small: " +
			"no storage class of their pool binds with WaitForFirstConsumer. Create one, or change the pool"}},
		"refused": {func(w *world) {
			w.cr.Spec.TemplateNodes, w.classes = w.cr.Spec.TemplateNodes[:1], w.classes[:1]
			w.fails = errors.New("forbidden")
		}, []string{"Warning CreateResourceFailed publish the capacity of template node big for class fast: forbidden", "CreateResourceFailed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			row.spoil(w)
			_, got, err := w.run(t)
			if (err != nil) != (w.fails != nil) || len(got) != len(row.want) {
				t.Fatalf("%q, %v", got, err)
			}
			for i, words := range row.want {
				if !strings.Contains(got[i], words) {
					t.Errorf("event %q, want %q", got[i], words)
				}
			}
		})
	}
}
