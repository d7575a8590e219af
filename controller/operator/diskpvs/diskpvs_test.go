package diskpvs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
)

const grace = time.Minute

// scene is a cluster with the PV of a raw disk of node-01, whose Node does not exist, and of another
// node's.
type scene struct {
	pv, other   *corev1.PersistentVolume
	node, third *corev1.Node // nil if it does not exist
	claim       *corev1.PersistentVolumeClaim
	agent       *corev1.Pod
	waited      time.Duration
}

func newScene() *scene {
	s := &scene{pv: diskPV("local-node-01-a", "node-01"), other: diskPV("local-node-02-a", "node-02"), waited: 2 * grace}
	s.other.Annotations[contract.AnnNodeUID] = "two"
	return s
}

func diskPV(name, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels:      map[string]string{contract.LabelDisk: node, contract.LabelDiskOlder: node},
			Annotations: map[string]string{contract.AnnNodeUID: "one", contract.AnnCluster: "c"}},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/dev/disk/by-id/a"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func newNode(name, uid, hostname string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Labels: map[string]string{corev1.LabelHostname: hostname}}}
}

func (s *scene) owned() {
	s.pv.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "node-01", UID: "one"}, {Kind: "Other", Name: "o", UID: "o"}}
	s.pv.Annotations = nil
}

func (s *scene) bound(phase corev1.PersistentVolumePhase) {
	s.claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "claim"}}
	s.pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: "claim"}
	s.pv.Status.Phase = phase
}

func (s *scene) answers(ready corev1.ConditionStatus) {
	s.agent = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "agent", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
		Spec:       corev1.PodSpec{NodeName: "node-01"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready,
			LastTransitionTime: metav1.NewTime(time.Now().Add(-2 * grace))}}},
	}
}

func (s *scene) objects() (all []runtime.Object) {
	all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "c"}}, s.other.DeepCopy())
	if s.pv != nil {
		all = append(all, s.pv.DeepCopy())
	}
	for _, n := range []*corev1.Node{s.node, s.third} {
		if n != nil {
			all = append(all, n.DeepCopy())
		}
	}
	if s.claim != nil {
		all = append(all, s.claim.DeepCopy())
	}
	if s.agent != nil {
		all = append(all, s.agent.DeepCopy())
	}
	return all
}

// reconciler returns one whose cache has the scene before the change, and the API server the scene
// after it.
func (s *scene) reconciler(t *testing.T, change func(*scene)) (*Reconciler, *kubefake.Clientset) {
	t.Helper()
	cached := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(s.objects()...).
		WithIndex(&corev1.PersistentVolume{}, byLabel, labelOf).Build()
	r := &Reconciler{Namespace: "agents", Cache: installedtest.Cached(cached),
		Grace:  func(context.Context) (time.Duration, error) { return grace, nil },
		absent: map[string]absence{"node-01": {at: time.Now().Add(-s.waited)}}}
	if change != nil {
		change(s)
	}
	api := kubefake.NewClientset(s.objects()...)
	recorder := events.NewOf(api, corev1.EventSource{Component: "test"})
	t.Cleanup(recorder.Close)
	r.Live, r.Events = api, recorder
	return r, api
}

func (r *Reconciler) pass() error {
	_, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "node-01"}})
	return err
}

func writes(actions []clienttesting.Action) (all []string) {
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

// TestReconcile has each state of a PV and of its Node: what is written.
func TestReconcile(t *testing.T) {
	const pv = "local-node-01-a"
	withdrawn := []string{"delete " + pv, "event DeviceWithdrawn " + pv}
	told := []string{"event VolumeNodeGone " + pv}
	toldBoth := []string{"event VolumeNodeGone data", "event VolumeNodeGone " + pv}
	kept := func(notes string) []string {
		return []string{`patch ` + pv + ` {"metadata":{"annotations":{` + notes + `},` +
			`"ownerReferences":[{"apiVersion":"","kind":"Other","name":"o","uid":"o"}],"resourceVersion":"1","uid":"` + pv + `"}}`}
	}
	uid, cluster := fmt.Sprintf("%q:%q", contract.AnnNodeUID, "one"), fmt.Sprintf("%q:%q", contract.AnnCluster, "c")
	exists := func(s *scene) { s.node = newNode("node-01", "one", "node-01") }
	again := func(s *scene) { s.node = newNode("node-01", "new", "node-01") }
	for _, row := range []struct {
		name  string
		spoil func(*scene)
		live  func(*scene) // what the cache does not have yet
		want  []string
	}{
		{"its Node exists", exists, nil, nil},
		{"owned by its Node", func(s *scene) { exists(s); s.owned() }, nil, kept(cluster + "," + uid)},
		{"owned by a Node that was made again", func(s *scene) { again(s); s.owned() }, nil, kept(uid)},
		{"owned, and annotated with another Node", func(s *scene) { exists(s); s.owned(); s.pv.Annotations = map[string]string{contract.AnnNodeUID: "x"} }, nil, kept(cluster + "," + uid)},
		{"owned, and not yet in the grace period", func(s *scene) { s.owned(); s.waited = 0 }, nil, kept(uid)},
		{"owned, and being deleted", func(s *scene) {
			exists(s)
			s.owned()
			s.pv.DeletionTimestamp, s.pv.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes.io/pv-protection"}
		}, nil, nil},
		{"no mark of the cluster", func(s *scene) { exists(s); delete(s.pv.Annotations, contract.AnnCluster) }, nil,
			[]string{`patch ` + pv + ` {"metadata":{"annotations":{` + cluster + `},"resourceVersion":"1","uid":"` + pv + `"}}`}},
		{"no mark of the cluster, made again", func(s *scene) { again(s); delete(s.pv.Annotations, contract.AnnCluster) }, nil, nil},
		{"another local PV", func(s *scene) { exists(s); s.owned(); s.pv.Labels = nil }, nil, nil},
		{"a directory", func(s *scene) {
			exists(s)
			s.owned()
			s.pv.Spec.Local, s.pv.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/x"}
		}, nil, nil},

		{"absent", nil, nil, withdrawn},
		{"absent, phase not set yet", func(s *scene) { s.pv.Status.Phase = "" }, nil, withdrawn},
		{"absent for a moment", func(s *scene) { s.waited = grace / 2 }, nil, nil},
		{"absent, and its agent is ready", func(s *scene) { s.answers(corev1.ConditionTrue) }, nil, nil},
		{"absent, and its agent is not ready", func(s *scene) { s.answers(corev1.ConditionFalse) }, nil, withdrawn},
		{"absent, and another Node has the hostname", func(s *scene) { s.third = newNode("node-03", "three", "node-01") }, nil, nil},
		{"absent, and no hostname is required", func(s *scene) { s.pv.Spec.NodeAffinity = nil }, nil, told},
		{"absent, of another cluster", func(s *scene) { s.pv.Annotations[contract.AnnCluster] = "d" }, nil, told},
		{"absent, of no cluster", func(s *scene) { delete(s.pv.Annotations, contract.AnnCluster) }, nil, told},
		{"absent, Bound", func(s *scene) { s.bound(corev1.VolumeBound) }, nil, toldBoth},
		{"absent, Released", func(s *scene) { s.bound(corev1.VolumeReleased); s.claim = nil }, nil, told},
		{"absent, meant for a claim", func(s *scene) { s.bound(corev1.VolumeAvailable); s.claim, s.pv.Spec.ClaimRef.UID = nil, "" }, nil, told},
		{"absent, had a claim before", func(s *scene) { s.pv.Annotations[contract.AnnBoundByController] = "yes" }, nil, told},
		{"absent, has a pool", func(s *scene) { s.pv.Annotations[contract.AnnHeldPool] = "node-01 local /p" }, nil, told},
		{"absent, and a claim took it since", nil, func(s *scene) { s.bound(corev1.VolumeAvailable) }, toldBoth},
		{"absent, and deleted since", nil, func(s *scene) { s.pv = nil }, nil},
		{"the Node came back since", nil, exists, nil},
		{"another Node came since", nil, again, nil},
		{"its agent is ready since", nil, func(s *scene) { s.answers(corev1.ConditionTrue) }, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene()
			if row.spoil != nil {
				row.spoil(s)
			}
			r, api := s.reconciler(t, row.live)
			if err := r.pass(); err != nil {
				t.Fatal(err)
			}
			if got := writes(api.Actions()); !slices.Equal(got, row.want) {
				t.Errorf("written %q, want %q", got, row.want)
			}
		})
	}
}

// TestLongNodeName has a Node whose name is too long for a label, which has a hash of it.
func TestLongNodeName(t *testing.T) {
	name := strings.Repeat("n", 64)
	label := contract.LabelValue(name)
	const pv = "local-node-01-a"
	for _, row := range []struct {
		name  string
		spoil func(*scene)
		want  []string
	}{
		{"it exists", func(s *scene) { s.node = newNode(name, "one", "h"); delete(s.pv.Annotations, contract.AnnCluster) },
			[]string{fmt.Sprintf(`patch %s {"metadata":{"annotations":{%q:"c"},"resourceVersion":"1","uid":%q}}`, pv, contract.AnnCluster, pv)}},
		{"absent", func(*scene) {}, []string{"event VolumeNodeGone " + pv}},
		{"absent, Bound", func(s *scene) { s.bound(corev1.VolumeBound) }, []string{"event VolumeNodeGone data", "event VolumeNodeGone " + pv}},
		{"absent for a moment", func(s *scene) { s.waited = 0 }, nil},
		{"another Node has the hostname", func(s *scene) { s.third = newNode("node-03", "three", "node-01") }, nil},
	} {
		s := newScene()
		s.pv.Labels = map[string]string{contract.LabelDisk: label, contract.LabelDiskOlder: label}
		row.spoil(s)
		r, api := s.reconciler(t, nil)
		r.absent[label] = r.absent["node-01"]
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: label}}); err != nil {
			t.Fatal(err)
		}
		if got := writes(api.Actions()); !slices.Equal(got, row.want) {
			t.Errorf("%s: written %q, want %q", row.name, got, row.want)
		}
	}
}

// TestGraceUnknown has a grace period that cannot be read: no PV is withdrawn.
func TestGraceUnknown(t *testing.T) {
	r, api := newScene().reconciler(t, nil)
	r.Grace = func(context.Context) (time.Duration, error) { return 0, errors.New("unreadable") }
	if err := r.pass(); err == nil || len(writes(api.Actions())) > 0 {
		t.Errorf("%v, written %q", err, writes(api.Actions()))
	}
}

// TestGraceStartsAgain has the agent ready between two checks.
func TestGraceStartsAgain(t *testing.T) {
	s := newScene()
	s.answers(corev1.ConditionTrue)
	r, api := s.reconciler(t, nil)
	for _, step := range []struct {
		name  string
		ready corev1.ConditionStatus
		since time.Duration
		pass  time.Duration
		want  int
	}{
		{"ready", corev1.ConditionTrue, 0, 2 * grace, 0},
		{"not ready any more", corev1.ConditionFalse, 2 * grace, 0, 0},
		{"half of the grace period", corev1.ConditionFalse, 2 * grace, grace / 2, 0},
		{"it was ready a moment ago", corev1.ConditionFalse, time.Second, grace, 0},
		{"its clock is fast", corev1.ConditionFalse, -time.Hour, grace, 0},
		{"the grace period is over", corev1.ConditionFalse, 3 * grace, grace + time.Second, 2},
	} {
		a := r.absent["node-01"]
		a.at = a.at.Add(-step.pass)
		r.absent["node-01"] = a
		pod := s.agent.DeepCopy()
		pod.Status.Conditions[0].Status, pod.Status.Conditions[0].LastTransitionTime = step.ready, metav1.NewTime(time.Now().Add(-step.since))
		if err := api.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, "agents"); err != nil {
			t.Fatal(err)
		}
		if err := r.pass(); err != nil {
			t.Fatal(err)
		}
		if got := writes(api.Actions()); len(got) != step.want {
			t.Errorf("%s: written %q", step.name, got)
		}
	}
}

// TestOwnerComesBack has a program that makes the Node the owner again after each write: the operator
// repeats its own ever later, with one event.
func TestOwnerComesBack(t *testing.T) {
	s := newScene()
	s.node = newNode("node-01", "one", "node-01")
	s.owned() // in the cache, after each write
	r, api := s.reconciler(t, nil)
	patches := func() (n int) {
		for _, w := range writes(api.Actions()) {
			if strings.HasPrefix(w, "patch") {
				n++
			}
		}
		return n
	}
	var elapsed time.Duration
	r.wrote.Now = func() time.Time { return time.Now().Add(elapsed) }
	for want, elapse := range []time.Duration{0, 0, checkInterval, checkInterval, 3 * checkInterval} {
		elapsed += elapse
		if err := r.pass(); err != nil {
			t.Fatal(err)
		}
		if want = []int{1, 1, 2, 2, 3}[want]; patches() != want {
			t.Errorf("%d patches, want %d", patches(), want)
		}
	}
}

// TestKilled has each write of the operator fail, as for one that is killed: the next one goes on.
func TestKilled(t *testing.T) {
	s := newScene()
	s.owned()
	s.pv.Annotations = map[string]string{contract.AnnCluster: "c"}
	r, api := s.reconciler(t, nil)
	fail := true
	for _, verb := range []string{"patch", "delete"} {
		api.PrependReactor(verb, "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return fail, nil, errors.New("killed")
		})
	}
	if err := r.pass(); err == nil {
		t.Error("no error")
	}
	fail = false
	if err := r.pass(); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().PersistentVolumes().Get(context.Background(), s.pv.Name, metav1.GetOptions{}); err == nil {
		t.Error("the PV is still there")
	}
}
