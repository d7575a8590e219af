package waiting

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
)

// A copy is made on the node that has its source, whatever node the scheduler chose. Where no agent can make
// it, its claim gets an event, and an agent that is ready there records its own.
func TestCopyWaits(t *testing.T) {
	for what, row := range map[string]struct {
		spoil func(*scene, *corev1.PersistentVolume)
		want  string
	}{
		"no agent": {func(s *scene, _ *corev1.PersistentVolume) { s.agent = nil },
			"no agent runs on node node-01, which has the volume of claim first, so this claim waits for its copy"},
		"not ready":      {nil, "the agent on node node-01 is not ready, so this claim waits: kubectl -n agents describe pod agent-x"},
		"node not ready": {func(s *scene, _ *corev1.PersistentVolume) { s.node.Status.Conditions = nil }, "node node-01 is not ready, so this claim waits"},
		"no node": {func(s *scene, _ *corev1.PersistentVolume) { s.node, s.agent = nil, nil },
			"node node-01, which has the volume of claim first, does not exist any more"},
		"an agent is ready":         {func(s *scene, _ *corev1.PersistentVolume) { s.agent.Status.Conditions[0].Status = corev1.ConditionTrue }, ""},
		"the source's PV is gone":   {func(s *scene, pv *corev1.PersistentVolume) { s.agent, pv.Name = nil, "pvc-other" }, ""},
		"the PV is another claim's": {func(s *scene, pv *corev1.PersistentVolume) { s.agent, pv.Spec.ClaimRef.UID = nil, "former" }, ""},
		"not for long":              {func(s *scene, _ *corev1.PersistentVolume) { s.agent, s.since = nil, patience/2 }, ""},
	} {
		s := newScene()
		s.sc.Provisioner = contract.CSIProvisioner
		s.claim.Annotations[contract.AnnSelectedNode] = "node-02"
		s.claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "first"}
		from := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "first", UID: "first"}}
		from.Spec.VolumeName = "pvc-first"
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-first", Annotations: map[string]string{contract.AnnPool: "pool"}}}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "first", UID: "first"}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "pvc-first"}
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: contract.TopologyNode, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-01"}}}}}}}
		if row.spoil != nil {
			row.spoil(s, pv)
		}
		objects := append(s.objects(), runtime.Object(from), pv)
		live := kubefake.NewClientset(objects...)
		name := types.NamespacedName{Namespace: "ns", Name: "data"}
		r := &Reconciler{Namespace: "agents", Cache: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(objects...).Build(),
			Live: live, Events: newRecorder(t, live), Installed: installedtest.Beside(""), since: map[types.NamespacedName]seen{}}
		for range 3 { // the second time it has waited, and the third one records nothing
			next, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: name})
			if err != nil || next.RequeueAfter == 0 {
				t.Errorf("%s: again after %s, %v", what, next.RequeueAfter, err)
			}
			if seen, ok := r.since[name]; ok {
				seen.at, seen.agentAt = time.Now().Add(-s.since), time.Now().Add(-s.since)
				r.since[name] = seen
			}
		}
		got := messages(t, live)
		if (len(got) > 0) != (row.want != "") || len(got) > 1 || !strings.Contains(strings.Join(got, "\n"), row.want) {
			t.Errorf("%s: events %q, want %q", what, got, row.want)
		}
	}
}
