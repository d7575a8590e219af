package waiting

import (
	"strings"
	"testing"
	"testing/synctest"
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

// A PV whose volume is to be deleted, on a node without an agent that could, gets one event an hour with
// the reason. The node is read as often.
func TestVolumes(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(*corev1.PersistentVolume, *scene)
		want  string // words of the event, "" for none
	}{
		"no agent":        {func(_ *corev1.PersistentVolume, s *scene) { s.agent = nil }, "no agent runs on node node-01, so nothing deletes the volume of this PV: let one run there"},
		"agent not ready": {nil, "the agent on node node-01 is not ready, so nothing deletes"},
		"agent ready":     {func(_ *corev1.PersistentVolume, s *scene) { s.agent.Status.Conditions[0].Status = corev1.ConditionTrue }, ""},
		"agent of CSI claims alone": {func(pv *corev1.PersistentVolume, s *scene) {
			s.agent.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "PROVISION", Value: "csi"}}}}
			pv.Spec = corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: pv.Spec.PersistentVolumeReclaimPolicy, NodeAffinity: onHost("node-01"),
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/hpvolumes/pvc-1"}}}
		}, "the agent on node node-01 serves no PVs of provisioner kubevirt.io/hostpath-provisioner, so nothing deletes"},
		"node not ready": {func(_ *corev1.PersistentVolume, s *scene) {
			s.node.Status.Conditions[0].Status = corev1.ConditionUnknown
		}, "node node-01 is not ready"},
		"node deleted": {func(_ *corev1.PersistentVolume, s *scene) { s.node, s.agent = nil, nil }, ""},
		"PV deleted":   {func(pv *corev1.PersistentVolume, _ *scene) { pv.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, "the agent on node node-01 is not ready"},
		"retained": {func(pv *corev1.PersistentVolume, _ *scene) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, ""},
		"bound":             {func(pv *corev1.PersistentVolume, _ *scene) { pv.Status.Phase = corev1.VolumeBound }, ""},
		"of another driver": {func(pv *corev1.PersistentVolume, _ *scene) { pv.Spec.CSI.Driver = "other" }, ""},
		"another serves it": {func(_ *corev1.PersistentVolume, s *scene) { s.other = "other" }, ""},
		"PV deleted, in use": {func(pv *corev1.PersistentVolume, _ *scene) {
			pv.DeletionTimestamp, pv.Status.Phase = &metav1.Time{Time: time.Now()}, corev1.VolumeBound
		}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, pv := newScene(), leavingPV()
			if row.spoil != nil {
				row.spoil(pv, s)
			}
			live := kubefake.NewClientset(s.objects()...)
			cache := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(append(s.objects(), runtime.Object(pv))...).Build()
			recorder := newRecorder(t, live)
			defer recorder.Close()
			v := &Volumes{leaving: map[string]leaving{}, Reconciler: &Reconciler{Namespace: "agents", Cache: installedtest.Cached(cache), Live: live, Events: recorder,
				Installed: installedtest.Beside(s.other)}}
			for end := time.Now().Add(sayAgainAfter / 2); time.Now().Before(end); {
				next, err := v.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: pv.Name}})
				if err != nil {
					t.Fatal(err)
				}
				if got := messages(t, live); len(got) > 0 && time.Until(end) > sayAgainAfter/2-patience {
					t.Errorf("%s: %q before the agent's pod can have been replaced", name, got)
				}
				time.Sleep(max(next.RequeueAfter, time.Second))
			}
			if got := messages(t, live); len(got) > 1 || (len(got) == 0) != (row.want == "") || !strings.Contains(strings.Join(got, "\n"), row.want) {
				t.Errorf("%s: events %q, want %q", name, got, row.want)
			}
			v.Cache = installedtest.Cached(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build())
			if _, err := v.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: pv.Name}}); err != nil || len(v.leaving) > 0 {
				t.Errorf("%s: %v, remembered of a PV that is gone: %v", name, err, v.leaving)
			}
			nodes := 0
			for _, a := range live.Actions() {
				if a.GetResource().Resource == "nodes" {
					nodes++
				}
			}
			if nodes > 1 {
				t.Errorf("%s: the node is read %d times in half an hour", name, nodes)
			}
		})
	}
}

// leavingPV is the CSI PV of a claim on node-01 that was deleted.
func leavingPV() *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "pv", Finalizers: []string{contract.Finalizer},
		Annotations: map[string]string{contract.AnnProvisionedBy: contract.HostPathProvisioner, contract.AnnProvisionOnNode: "node-01"}}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "pvc-1"}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	pv.Spec.NodeAffinity = onHost("node-01")
	pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = contract.TopologyNode
	pv.Status.Phase = corev1.VolumeReleased
	return pv
}

func onHost(name string) *corev1.VolumeNodeAffinity {
	here := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{here}}}}}
}
