package nodegone

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
)

const grace = time.Minute

// scene is a PV of each backend on node-01, which does not exist, with its claim, and the class with the policy. The PVs have the
// reclaim policy Retain, as after the first step of release.
type scene struct {
	pv, csi    *corev1.PersistentVolume
	claim      *corev1.PersistentVolumeClaim
	sc         *storagev1.StorageClass
	capacity   *storagev1.CSIStorageCapacity
	node, host *corev1.Node // none unless a row adds one
	agent      *corev1.Pod
	seen       time.Duration // for how long the node has been gone
}

func newScene(policy string) *scene {
	at := class.Place{Node: "node-01", Hostname: "host-a", NodeUID: "old", Cluster: "c", Pool: "6e0c"}
	delayed := storagev1.VolumeBindingWaitForFirstConsumer
	s := &scene{seen: grace + time.Second}
	s.sc = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: class.HostPathProvisioner, VolumeBindingMode: &delayed}
	if policy != "" {
		s.sc.Annotations = map[string]string{class.AnnNodeGone: policy}
	}
	s.claim = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1", ResourceVersion: "1"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local"), VolumeName: "pvc-1"},
	}
	d := class.Own(false)
	s.pv = d.PV("pvc-1", "/var/hpvolumes/pvc-1", s.claim, s.sc, at, corev1.PersistentVolumeReclaimRetain)
	s.csi = class.CSIPV("pvc-2", "pvc-2", "local", s.claim, &storagev1.StorageClass{Provisioner: class.CSIProvisioner}, at, corev1.PersistentVolumeReclaimRetain)
	s.csi.Annotations[class.AnnProvisionedBy] = class.CSIProvisioner
	for _, pv := range []*corev1.PersistentVolume{s.pv, s.csi} {
		pv.UID, pv.ResourceVersion, pv.Finalizers = types.UID(pv.Name), "1", []string{"kubernetes.io/pv-protection", class.Finalizer}
		pv.Status.Phase = corev1.VolumeBound
	}
	s.pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: "1"}
	s.csi.Spec.ClaimRef, s.csi.Status.Phase = nil, corev1.VolumeReleased
	s.capacity = &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "c", UID: "c", ResourceVersion: "1"},
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{class.TopologyNode: "node-01"}}}
	return s
}

// unclaimed has the claim gone, as Kubernetes leaves the PV then.
func (s *scene) unclaimed() { s.claim, s.pv.Status.Phase = nil, corev1.VolumeReleased }

// replaced has a Node of the same name and another UID than the PVs name, with an agent.
func (s *scene) replaced(ready corev1.ConditionStatus) {
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "new"}}
	s.answers(ready)
}

// exists has a Node of the name, without an agent.
func (s *scene) exists(uid types.UID) {
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: uid}}
}

// mark sets an annotation of the PVs, or removes it.
func (s *scene) mark(key, value string) {
	for _, pv := range []*corev1.PersistentVolume{s.pv, s.csi} {
		switch {
		case pv == nil:
		case value == "":
			delete(pv.Annotations, key)
		default:
			pv.Annotations[key] = value
		}
	}
}

// abandoned has a Node of the same name with an empty disk. An administrator gives up what was on the older one, and the agent,
// which is not ready without its pool, reports that the pool of one PV is not open.
func (s *scene) abandoned(pv string) {
	s.replaced(corev1.ConditionFalse)
	s.node.Annotations = map[string]string{class.AnnGiveUp: "new"}
	for _, one := range []*corev1.PersistentVolume{s.pv, s.csi} {
		if one.Name == pv {
			one.Annotations[class.AnnMissing] = "pool/new"
		}
	}
}

// noted is the patch of a PV with the policy Retain that the annotation of the Node gives up.
func noted(pv, node string) string {
	return fmt.Sprintf(`patch %s {"metadata":{"annotations":{%q:%q},"resourceVersion":"1","uid":%[1]q},"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`,
		pv, class.AnnGivenUp, node)
}

// answers has the pod of an agent on the node.
func (s *scene) answers(ready corev1.ConditionStatus) {
	s.agent = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "agent", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
		Spec:       corev1.PodSpec{NodeName: "node-01"},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func (s *scene) objects() (all []runtime.Object) {
	add := func(o runtime.Object, there bool) {
		if there {
			all = append(all, o.DeepCopyObject())
		}
	}
	add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "c"}}, true)
	add(s.pv, s.pv != nil)
	add(s.csi, s.csi != nil)
	add(s.claim, s.claim != nil)
	add(s.sc, s.sc != nil)
	add(s.capacity, s.capacity != nil)
	add(s.node, s.node != nil)
	add(s.host, s.host != nil)
	add(s.agent, s.agent != nil)
	return all
}

// reconciler returns one whose cache has the objects, as the API server has them but for the change, and a list of what it
// writes there.
func (s *scene) reconciler(t *testing.T, change func(*scene)) (*Reconciler, func() []string) {
	t.Helper()
	cached := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(s.objects()...).
		WithIndex(&corev1.PersistentVolume{}, byNode, nodesOf).
		WithIndex(&corev1.PersistentVolume{}, byPool, poolOf).WithIndex(&storagev1.CSIStorageCapacity{}, byNode, nodesOf).Build()
	r := &Reconciler{Namespace: "agents", Cache: cached, counts: map[string]tally{},
		Grace: func(context.Context) (time.Duration, error) { return grace, nil },
		since: map[string]quiet{"node-01": {at: time.Now().Add(-s.seen)}}}
	if s.node != nil {
		r.since["node-01"] = quiet{at: time.Now().Add(-s.seen), uid: s.node.UID}
	}
	if change != nil {
		change(s)
	}
	live := kubefake.NewClientset(s.objects()...)
	recorder := events.NewOf(live, corev1.EventSource{Component: "test"})
	t.Cleanup(recorder.Close)
	r.Live, r.Events = live, recorder
	return r, func() []string { return written(live.Actions()) }
}

// written lists the writes: events with their object and reason, all others as "verb name".
func written(actions []clienttesting.Action) (all []string) {
	for _, a := range actions {
		switch a := a.(type) {
		case clienttesting.CreateAction:
			e := a.GetObject().(*corev1.Event)
			all = append(all, fmt.Sprintf("event %s %s", e.Reason, e.InvolvedObject.Name))
		case clienttesting.DeleteActionImpl:
			if p := a.DeleteOptions.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
				all = append(all, "without a precondition")
			}
			all = append(all, "delete "+a.GetName())
		case clienttesting.PatchAction:
			all = append(all, "patch "+a.GetName()+" "+string(a.GetPatch()))
		}
	}
	slices.Sort(all)
	return all
}

func TestReconcile(t *testing.T) {
	reported := []string{"delete c", "event VolumeNodeGone data", "event VolumeNodeGone pvc-1", "event VolumeNodeGone pvc-2"}
	unheld := `patch pvc-2 {"metadata":{"finalizers":["kubernetes.io/pv-protection"],"resourceVersion":"1","uid":"pvc-2"}}`
	deleting := func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	for _, row := range []struct {
		name, policy string
		spoil        func(*scene)
		want         []string
		counts       tally
	}{
		{"keep", "", nil, reported, tally{kept: 2}},
		{"no such policy", "discard", nil, reported, tally{kept: 2}},
		{"no class", "release", func(s *scene) { s.sc = nil }, reported, tally{kept: 2}},
		{"not yet", "release", func(s *scene) { s.seen = grace / 2 }, nil, nil},
		{"PV made by hand", "release", func(s *scene) { delete(s.csi.Annotations, class.AnnProvisionedBy); s.pv, s.capacity = nil, nil },
			[]string{"event VolumeNodeGone pvc-2"}, tally{kept: 1}},
		{"PV of another driver", "release", func(s *scene) { s.csi.Spec.CSI.Driver = "other"; s.pv, s.capacity = nil, nil }, nil, nil},
		{"release", "release", nil, []string{"delete c", "delete data", "delete pvc-2", "event VolumeReleased data", "event VolumeReleased pvc-2"}, tally{removing: 2}},
		{"release, policy Delete", "release", func(s *scene) {
			s.pv.Spec.PersistentVolumeReclaimPolicy, s.csi, s.capacity = corev1.PersistentVolumeReclaimDelete, nil, nil
		}, []string{`patch pvc-1 {"metadata":{"annotations":{"` + class.AnnFormerPolicy + `":"Delete"},"resourceVersion":"1","uid":"pvc-1"},` +
			`"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`}, tally{removing: 1}},
		{"delete", "delete", nil, []string{"delete c", "delete data", "event VolumeReleased data"}, tally{removing: 1, released: 1}},
		{"claim held by a pod", "release", func(s *scene) {
			s.claim.DeletionTimestamp, s.claim.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes.io/pvc-protection"}
			s.csi, s.capacity = nil, nil
		}, nil, tally{removing: 1}},
		{"claim gone, PV not yet released", "release", func(s *scene) { s.claim, s.csi, s.capacity = nil, nil, nil }, nil, tally{removing: 1}},
		{"claim of the same name", "release", func(s *scene) {
			s.unclaimed()
			s.claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "2"}}
			s.csi, s.capacity = nil, nil
		}, []string{"delete pvc-1", "event VolumeReleased pvc-1"}, tally{removing: 1}},
		{"claim gone", "release", func(s *scene) { s.unclaimed(); s.csi, s.capacity = nil, nil }, []string{"delete pvc-1", "event VolumeReleased pvc-1"}, tally{removing: 1}},
		{"held by the provisioner's finalizer", "release", func(s *scene) { s.pv, s.capacity = nil, nil; deleting(s.csi) }, []string{unheld}, tally{removing: 1}},
		{"held by other finalizers", "release", func(s *scene) { s.pv, s.capacity = nil, nil; deleting(s.csi); s.csi.Finalizers = []string{"a/b"} }, nil, tally{removing: 1}},
		{"deleted by hand, policy delete", "delete", func(s *scene) { s.pv, s.capacity = nil, nil; deleting(s.csi) }, nil, tally{released: 1}},
		{"node exists", "release", func(s *scene) { s.exists("old") }, nil, nil},
		{"node exists, PVs without its UID", "release", func(s *scene) { s.exists("new"); s.mark(class.AnnNodeUID, "") }, nil, nil},
		{"node has another hostname now", "release", func(s *scene) {
			s.exists("old")
			s.node.Labels = map[string]string{corev1.LabelHostname: "host-b"}
		}, nil, nil},
		{"another node has the hostname", "release", func(s *scene) {
			s.host = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-02", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
		}, []string{"delete c", "delete pvc-2", "event VolumeReleased pvc-2"}, tally{removing: 1}},
		{"deleted under its agent", "release", func(s *scene) { s.answers(corev1.ConditionTrue) }, nil, nil},
		{"deleted, agent not ready", "release", func(s *scene) { s.answers(corev1.ConditionFalse); s.csi = nil },
			[]string{"delete c", "delete data", "event VolumeReleased data"}, tally{removing: 1}},
		{"deleted, agent not ready since just now", "release", func(s *scene) {
			s.answers(corev1.ConditionFalse)
			s.agent.Status.Conditions[0].LastTransitionTime = metav1.Now()
		}, nil, nil},
		{"re-registered, NotReady meanwhile", "release", func(s *scene) { s.replaced(corev1.ConditionFalse) }, reported[1:], tally{kept: 2}},
		{"re-registered, not bound yet", "release", func(s *scene) { s.replaced(corev1.ConditionTrue) }, reported[1:], tally{kept: 2}},
		{"re-registered just now", "release", func(s *scene) { s.replaced(corev1.ConditionFalse); s.seen = 0 }, nil, nil},
		{"re-registered, bound again", "release", func(s *scene) { s.replaced(corev1.ConditionTrue); s.mark(class.AnnNodeUID, "new") }, nil, nil},
		{"rebuilt, PV waits for its agent", "delete", func(s *scene) { s.replaced(corev1.ConditionFalse); s.unclaimed(); s.csi = nil }, nil, tally{released: 1}},
		{"rebuilt, the volume is missing", "release", func(s *scene) {
			s.replaced(corev1.ConditionTrue)
			s.csi.Annotations[class.AnnMissing] = "volume/new"
		}, []string{"delete pvc-2", "event VolumeNodeGone data", "event VolumeNodeGone pvc-1", "event VolumeReleased pvc-2"}, tally{kept: 1, removing: 1}},
		{"rebuilt, empty disk", "release", func(s *scene) { s.replaced(corev1.ConditionFalse); s.mark(class.AnnMissing, "pool/new") }, reported[1:], tally{kept: 2}},
		{"given up under keep", "", func(s *scene) { s.abandoned("pvc-1") },
			[]string{"event VolumeNodeGone pvc-2", noted("pvc-1", "new")}, tally{kept: 1, removing: 1}},
		{"given up and noted", "", func(s *scene) { s.abandoned("pvc-1"); s.pv.Annotations[class.AnnGivenUp] = "new" },
			[]string{"delete data", "event VolumeNodeGone pvc-2", "event VolumeReleased data"}, tally{kept: 1, removing: 1}},
		{"given up under delete", "delete", func(s *scene) { s.abandoned("pvc-1"); s.csi = nil }, []string{noted("pvc-1", "new")}, tally{removing: 1}},
		{"given up, second pool bound", "", func(s *scene) { s.abandoned("pvc-1"); s.csi.Annotations[class.AnnNodeUID] = "new" },
			[]string{noted("pvc-1", "new")}, tally{removing: 1}},
		{"given up, PV of another cluster", "release", func(s *scene) { s.abandoned("pvc-1"); s.csi = nil; s.mark(class.AnnCluster, "b") },
			[]string{"event VolumeNodeGone data", "event VolumeNodeGone pvc-1"}, tally{kept: 1}},
		{"a disk replaced", "", func(s *scene) {
			s.abandoned("pvc-1")
			s.mark(class.AnnNodeUID, "new")
			s.node.Annotations[class.AnnGiveUp] = "6e0c"
		},
			[]string{noted("pvc-1", "new")}, tally{removing: 1}},
		{"applied before its node joins", "release", func(s *scene) { s.mark(class.AnnCluster, "b") }, reported, tally{kept: 2}},
		{"gone before the upgrade", "release", func(s *scene) { s.mark(class.AnnCluster, "") }, reported, tally{kept: 2}},
		{"upgrade, node exists", "release", func(s *scene) { s.exists("old"); s.mark(class.AnnCluster, ""); s.csi = nil },
			[]string{`patch pvc-1 {"metadata":{"annotations":{"` + class.AnnCluster + `":"c"},"resourceVersion":"1","uid":"pvc-1"}}`}, nil},
		{"upgrade, node registered again", "release", func(s *scene) { s.exists("new"); s.mark(class.AnnCluster, ""); s.seen = 0 }, nil, nil},
		{"its pool is on another node", "release", func(s *scene) {
			s.csi.Annotations[class.AnnNodeUID], s.capacity, s.claim = "2", nil, nil
			s.csi.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "node-02"
			s.host = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-02", UID: "2"}}
		}, []string{"event VolumeNodeGone pvc-1"}, tally{kept: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(row.policy)
			if row.spoil != nil {
				row.spoil(s)
			}
			r, writes := s.reconciler(t, nil)
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "node-01"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := writes(); !slices.Equal(got, row.want) {
				t.Errorf("written\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(row.want, "\n"))
			}
			if got := r.counts["node-01"]; fmt.Sprint(got) != fmt.Sprint(row.counts) {
				t.Errorf("counted %v, want %v", got, row.counts)
			}
			if again := result.RequeueAfter > 0; again != (len(r.since) > 0) {
				t.Errorf("checked again after %s", result.RequeueAfter)
			}
		})
	}
}

// A cache may be behind. Nothing is written then.
func TestCacheBehind(t *testing.T) {
	for _, row := range []struct {
		name, policy string
		change       func(*scene)
	}{
		{"node is back", "", func(s *scene) { s.exists("old") }},
		{"node is back", "release", func(s *scene) { s.exists("old") }},
		{"agent answers", "release", func(s *scene) { s.answers(corev1.ConditionTrue) }},
		{"other policy", "release", func(s *scene) { s.sc.Annotations = nil }},
		{"another PV", "release", func(s *scene) { s.pv.UID, s.csi.UID = "3", "4" }},
		{"PV of another node", "release", func(s *scene) {
			s.pv.Annotations[class.AnnProvisionOnNode] = "node-02"
			s.csi.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "node-02"
		}},
		{"PVs are gone", "release", func(s *scene) { s.pv, s.csi = nil, nil }},
		{"bound to the node by its agent", "release", func(s *scene) { s.mark(class.AnnMissing, ""); s.mark(class.AnnNodeUID, "new") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(row.policy)
			if s.capacity = nil; strings.HasPrefix(row.name, "bound") {
				s.abandoned("pvc-1")
				s.mark(class.AnnMissing, "pool/new")
			}
			r, writes := s.reconciler(t, row.change)
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "node-01"}}); err != nil {
				t.Fatal(err)
			}
			if got := writes(); len(got) > 0 {
				t.Errorf("written\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

// A Node may be created after the one of its name was found absent, and before the Nodes with its hostname are listed: it answers.
func TestNodeMadeBetweenTwoReads(t *testing.T) {
	s := newScene("release")
	s.exists("new")
	s.node.Labels = map[string]string{corev1.LabelHostname: "host-a"}
	s.csi, s.capacity = nil, nil
	w := newWorld(t, s.objects()...)
	w.api.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(corev1.Resource("nodes"), "node-01")
	})
	r := w.operator()
	r.since["node-01"] = quiet{at: time.Now().Add(-2 * grace)}
	if err := w.pass(r); err != nil || len(w.done) > 0 {
		t.Errorf("written %q, %v", w.done, err)
	}
}
