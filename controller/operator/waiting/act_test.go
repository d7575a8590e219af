package waiting

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
)

// scene is a claim for which the scheduler chose node-01, that node, which is older than the claim,
// and its agent.
type scene struct {
	claim *corev1.PersistentVolumeClaim
	sc    *storagev1.StorageClass
	node  *corev1.Node
	agent *corev1.Pod
	since time.Duration // for how long the claim has waited
	other string        // the namespace of another installation that serves the claim
}

func newScene() *scene {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &scene{
		since: patience + time.Second,
		sc:    &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: contract.HostPathProvisioner, VolumeBindingMode: &mode},
		claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1", CreationTimestamp: metav1.NewTime(created),
				Annotations: map[string]string{contract.AnnSelectedNode: "node-01"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Time: ptr.To(metav1.NewTime(created)), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:volume.kubernetes.io/selected-node":{}}}}`)}}},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local")},
		},
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-01", CreationTimestamp: metav1.NewTime(created.Add(-time.Hour))},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		},
		agent: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "agent-x", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
			Spec:       corev1.PodSpec{NodeName: "node-01"},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}},
		},
	}
}

func (s *scene) objects() (all []runtime.Object) {
	all = append(all, s.claim.DeepCopy(), s.sc.DeepCopy())
	if s.node != nil {
		all = append(all, s.node.DeepCopy())
	}
	if s.agent != nil {
		all = append(all, s.agent.DeepCopy())
	}
	return all
}

// A claim that waits gets one event, in the words of what keeps it, or is given back to the
// scheduler.
func TestReconcile(t *testing.T) {
	named := func(s *scene) { s.claim.Annotations[contract.AnnProvisionOnNode] = "node-01" }
	younger := func(s *scene) { s.node.CreationTimestamp = metav1.NewTime(s.claim.CreationTimestamp.Add(time.Hour)) }
	for _, row := range []struct {
		name  string
		spoil func(*scene)
		want  string // words of the event, "" for none
		given bool
	}{
		{"agent ready", func(s *scene) { s.agent.Status.Conditions[0].Status = corev1.ConditionTrue }, "", false},
		{"agent of CSI claims alone", func(s *scene) {
			s.agent.Status.Conditions[0].Status = corev1.ConditionTrue
			s.agent.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "PROVISION", Value: "csi"}}}}
		}, "the agent on node node-01 serves no claims of provisioner kubevirt.io/hostpath-provisioner, so this claim waits", false},
		{"agent of both", func(s *scene) {
			s.agent.Status.Conditions[0].Status = corev1.ConditionTrue
			s.agent.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "PROVISION", Value: "hostpath,csi"}}}}
		}, "", false},
		{"agent of CSI claims alone, and a CSI claim", func(s *scene) {
			s.agent.Status.Conditions[0].Status, s.sc.Provisioner = corev1.ConditionTrue, contract.CSIProvisioner
			s.agent.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "PROVISION", Value: "csi"}}}}
		}, "", false},
		{"agent not ready", nil, "the agent on node node-01 is not ready, so this claim waits: kubectl -n agents describe pod agent-x", false},
		{"no agent", func(s *scene) { s.agent = nil }, "no agent runs on node node-01, so this claim waits: let one run there", false},
		{"agent of another node", func(s *scene) { s.agent.Spec.NodeName = "node-02" }, "no agent runs on node node-01", false},
		{"a pod that is no agent", func(s *scene) {
			s.agent.OwnerReferences[0].Kind = "ReplicaSet"
			s.agent.Status.Conditions[0].Status = corev1.ConditionTrue
		}, "no agent runs on node node-01", false},
		{"node not ready", func(s *scene) { s.node.Status.Conditions[0].Status = corev1.ConditionUnknown },
			"node node-01 is not ready, so this claim waits for it: kubectl describe node node-01", false},
		{"node without conditions, no agent", func(s *scene) { s.node.Status.Conditions, s.agent = nil, nil }, "node node-01 is not ready", false},
		{"not yet", func(s *scene) { s.since = patience / 2 }, "", false},
		{"bound", func(s *scene) { s.claim.Spec.VolumeName = "pvc-1" }, "", false},
		{"of another provisioner", func(s *scene) { s.sc.Provisioner = "other" }, "", false},
		{"chosen node deleted", func(s *scene) { s.node = nil }, "node node-01, which the scheduler had chosen for this claim, does not exist any more", true},
		{"chosen node replaced", younger, "was deleted, and another node has its name", true},
		{"chosen after the node was replaced", func(s *scene) {
			younger(s)
			s.claim.ManagedFields[0].Time = ptr.To(metav1.NewTime(s.node.CreationTimestamp.Add(time.Hour)))
		}, "the agent on node node-01 is not ready", false},
		{"another installation serves it", func(s *scene) { s.agent, s.other = nil, "other" }, "", false},
		{"another installation, chosen node deleted", func(s *scene) { s.node, s.other = nil, "other" }, "", false},
		{"named node missing", func(s *scene) { named(s); s.node = nil }, `names node "node-01", which does not exist: correct it`, false},
		{"named node replaced", func(s *scene) { named(s); younger(s) }, "the agent on node node-01 is not ready", false},
		{"no node yet", func(s *scene) { s.sc.VolumeBindingMode, s.claim.Annotations, s.since = nil, nil, patienceWithoutNode/2 }, "", false},
		{"no node", func(s *scene) {
			s.since = patienceWithoutNode + time.Second
			s.sc.VolumeBindingMode, s.claim.Annotations = nil, nil
		}, "no node is named for this claim", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene()
			if row.spoil != nil {
				row.spoil(s)
			}
			live := kubefake.NewClientset(s.objects()...)
			name := types.NamespacedName{Namespace: "ns", Name: "data"}
			r := &Reconciler{Namespace: "agents", Cache: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(s.objects()...).Build(),
				Live: live, Events: newRecorder(t, live), Installed: installedtest.Beside(s.other), since: map[types.NamespacedName]seen{}}
			if p, waits := placeOf(s.claim, s.sc); waits {
				agent, err := r.absent(t.Context(), p, s.sc.Provisioner)
				if err != nil {
					t.Fatal(err)
				}
				at := time.Now().Add(-s.since)
				r.since[name] = seen{p, at, agent.topic, at}
			}
			for range 2 { // the second time records nothing
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
					t.Fatal(err)
				}
			}
			if got := messages(t, live); len(got) > 1 || (len(got) == 0) != (row.want == "") || !strings.Contains(strings.Join(got, "\n"), row.want) {
				t.Errorf("events %q, want %q", got, row.want)
			}
			now, err := live.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data", metav1.GetOptions{})
			if _, chosen := now.Annotations[contract.AnnSelectedNode]; err != nil || row.given && chosen || !row.given && s.claim.Annotations != nil && !chosen {
				t.Errorf("%v, annotations %v", err, now.Annotations)
			}
		})
	}
}

// While an agent's pod is replaced, there is none, and then one that is not ready. Neither is
// recorded before it has lasted, and then each with its own words.
func TestAgentReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		pod := s.agent.DeepCopy()
		live := kubefake.NewClientset(s.objects()...)
		cache := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(s.objects()...).WithStatusSubresource(pod).Build()
		recorder := newRecorder(t, live)
		defer recorder.Close()
		r := &Reconciler{Namespace: "agents", Cache: cache, Live: live, Events: recorder, Installed: installedtest.Beside(""),
			since: map[types.NamespacedName]seen{}}
		ready := func(status corev1.ConditionStatus) {
			pod.ResourceVersion, pod.Status.Conditions[0].Status = "", status
			if err := cache.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		// after has the reconciler look until that time has passed, as often as it asks for.
		after := func(d time.Duration, want ...string) {
			t.Helper()
			for end := time.Now().Add(d); ; {
				next, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "data"}})
				if err != nil {
					t.Fatal(err)
				}
				if time.Until(end) < next.RequeueAfter {
					time.Sleep(time.Until(end))
					break
				}
				time.Sleep(next.RequeueAfter)
			}
			got := messages(t, live)
			if len(got) != len(want) {
				t.Errorf("events %q, want %d", got, len(want))
			}
			for i := range want {
				if !strings.Contains(strings.Join(got, "\n"), want[i]) {
					t.Errorf("no event %q in %q", want[i], got)
				}
			}
		}
		ready(corev1.ConditionTrue)
		after(patience - time.Second)
		if err := cache.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		after(patience - time.Second)
		pod.ResourceVersion = ""
		if err := cache.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		ready(corev1.ConditionFalse)
		after(patience - time.Second)
		after(2*checkInterval, "the agent on node node-01 is not ready")
		if err := cache.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		after(2*checkInterval, "the agent on node node-01 is not ready", "no agent runs on node node-01")
	})
}

// The annotation of a user may name what can be no node: a copy of `kubectl get nodes -o name` for
// example.
func TestImpossibleNode(t *testing.T) {
	for name, words := range map[string]string{
		"node/node-01":              `names node "node/node-01", which does not exist`,
		"node%2d01":                 `names node "node%2d01", which does not exist`,
		"..":                        `names node "..", which does not exist`,
		strings.Repeat("n", 100000): `names node "` + strings.Repeat("n", 253) + `…", which does not exist`,
	} {
		var events []string
		s := newScene()
		s.claim.Annotations[contract.AnnProvisionOnNode] = name
		client := apitest.Client(t, func(r *http.Request) (int, any) {
			if r.Method != http.MethodPost {
				t.Errorf("it asks for %.300s", r.URL)
				return http.StatusNotFound, apitest.Failure(http.StatusNotFound, metav1.StatusReasonNotFound)
			}
			var e corev1.Event
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
				t.Error(err)
			}
			events = append(events, e.Message)
			return http.StatusCreated, e
		})
		p, waits := placeOf(s.claim, s.sc)
		r := &Reconciler{Namespace: "agents", Live: client, Events: newRecorder(t, client)}
		for range 2 {
			if err := r.act(t.Context(), s.claim, s.sc, p, absence{}); err != nil || !waits {
				t.Errorf("%.300s: %v, waits: %t", name, err, waits)
			}
		}
		if len(events) != 1 || !strings.Contains(events[0], words) {
			t.Errorf("%.300s: events %.600q", name, events)
		}
	}
}

func newRecorder(t *testing.T, client kubernetes.Interface) *events.Recorder {
	t.Helper()
	recorder := events.NewOf(client, corev1.EventSource{Component: "test"})
	t.Cleanup(recorder.Close)
	return recorder
}

func messages(t *testing.T, live *kubefake.Clientset) (all []string) {
	t.Helper()
	list, err := live.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		all = append(all, e.Message)
	}
	slices.Sort(all)
	return all
}
