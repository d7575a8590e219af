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
	at := class.Place{Node: "node-01", Hostname: "host-a", Pool: "6e0c"}
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
	s.pv.Annotations[class.AnnNodeUID], s.csi.Annotations[class.AnnNodeUID] = "old", "old"
	s.answers(ready)
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
		WithIndex(&corev1.PersistentVolume{}, byNode, nodesOf).WithIndex(&storagev1.CSIStorageCapacity{}, byNode, nodesOf).Build()
	r := &Reconciler{Namespace: "agents", Cache: cached, counts: map[string]tally{},
		Grace: func(context.Context) (time.Duration, error) { return grace, nil },
		since: map[string]seen{"node-01": {at: time.Now().Add(-s.seen)}}}
	if s.node != nil {
		r.since["node-01"] = seen{at: time.Now().Add(-s.seen), uid: s.node.UID}
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
		{"node exists", "release", func(s *scene) { s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}} }, nil, nil},
		{"node has another hostname now", "release", func(s *scene) {
			s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "1", Labels: map[string]string{corev1.LabelHostname: "host-b"}}}
			s.pv.Annotations[class.AnnNodeUID], s.csi.Annotations[class.AnnNodeUID] = "1", "1"
		}, nil, nil},
		{"another node has the hostname", "release", func(s *scene) {
			s.host = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-02", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
		}, []string{"delete c", "delete pvc-2", "event VolumeReleased pvc-2"}, tally{removing: 1}},
		{"deleted under its agent", "release", func(s *scene) { s.answers(corev1.ConditionTrue) }, nil, nil},
		{"deleted, agent not ready", "release", func(s *scene) { s.answers(corev1.ConditionFalse); s.csi = nil },
			[]string{"delete c", "delete data", "event VolumeReleased data"}, tally{removing: 1}},
		{"replaced, agent not ready", "release", func(s *scene) { s.replaced(corev1.ConditionFalse) },
			[]string{"delete data", "delete pvc-2", "event VolumeReleased data", "event VolumeReleased pvc-2"}, tally{removing: 2}},
		{"replaced, agent ready", "release", func(s *scene) { s.replaced(corev1.ConditionTrue) }, nil, nil},
		{"replaced just now", "release", func(s *scene) { s.replaced(corev1.ConditionFalse); s.seen = 0 }, nil, nil},
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
			if again := result.RequeueAfter > 0; again != (len(row.counts) > 0 || row.want != nil || row.name == "not yet" || strings.HasPrefix(row.name, "replaced") || strings.HasPrefix(row.name, "deleted under")) {
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
		{"node is back", "", func(s *scene) { s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}} }},
		{"node is back", "release", func(s *scene) { s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}} }},
		{"agent answers", "release", func(s *scene) { s.answers(corev1.ConditionTrue) }},
		{"other policy", "release", func(s *scene) { s.sc.Annotations = nil }},
		{"another PV", "release", func(s *scene) { s.pv.UID, s.csi.UID = "3", "4" }},
		{"PV of another node", "release", func(s *scene) {
			s.pv.Annotations[class.AnnProvisionOnNode] = "node-02"
			s.csi.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "node-02"
		}},
		{"PVs are gone", "release", func(s *scene) { s.pv, s.csi = nil, nil }},
		{"bound to the node by its agent", "release", func(s *scene) { s.pv.Annotations[class.AnnNodeUID], s.csi.Annotations[class.AnnNodeUID] = "new", "new" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(row.policy)
			if s.capacity = nil; strings.HasPrefix(row.name, "bound") {
				s.replaced(corev1.ConditionFalse)
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

// A Node may be created after the one of its name was found absent, and before the Nodes with its hostname are listed. It is not
// the home of a PV that has another Node's UID.
func TestNodeMadeBetweenTwoReads(t *testing.T) {
	for _, row := range []struct {
		name, recorded string
		gone           bool
	}{
		{"another node's PV", "old", true},
		{"its own PV", "new", false},
		{"a PV without a node's UID", "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "new", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
			client := kubefake.NewClientset(made)
			client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewNotFound(corev1.Resource("nodes"), "node-01")
			})
			why, err := (&Reconciler{Namespace: "agents", Live: client}).gone(t.Context(), home{node: "node-01", hostname: "host-a", uid: types.UID(row.recorded)})
			if err != nil || (why != "") != row.gone {
				t.Errorf("gone: %q, %v, want gone %t", why, err, row.gone)
			}
		})
	}
}
