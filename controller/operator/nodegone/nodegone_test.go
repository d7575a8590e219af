package nodegone

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

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
		{"keep, and the capacity of nodes that an autoscaler may add", "", func(s *scene) {
			s.capacity.NodeTopology.MatchLabels[contract.LabelTemplateNode] = "true"
		}, reported[1:], tally{kept: 2}},
		{"no such policy", "discard", nil, reported, tally{kept: 2}},
		{"no class", "release", func(s *scene) { s.sc = nil }, reported, tally{kept: 2}},
		{"not yet", "release", func(s *scene) { s.seen = grace / 2 }, nil, nil},
		{"PV made by hand", "release", func(s *scene) { delete(s.csi.Annotations, contract.AnnProvisionedBy); s.pv, s.capacity = nil, nil },
			[]string{"event VolumeNodeGone pvc-2"}, tally{kept: 1}},
		{"PV of another driver", "release", func(s *scene) { s.csi.Spec.CSI.Driver = "other"; s.pv, s.capacity = nil, nil }, nil, nil},
		{"release", "release", nil, []string{"delete c", "delete data", "delete pvc-2", "event VolumeReleased data", "event VolumeReleased pvc-2"}, tally{removing: 2}},
		{"release, policy Delete", "release", func(s *scene) {
			s.pv.Spec.PersistentVolumeReclaimPolicy, s.csi, s.capacity = corev1.PersistentVolumeReclaimDelete, nil, nil
		}, []string{`patch pvc-1 {"metadata":{"annotations":{"` + contract.AnnFormerPolicy + `":"Delete"},"resourceVersion":"1","uid":"pvc-1"},` +
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
		{"node exists, PVs without its UID", "release", func(s *scene) { s.exists("new"); s.mark(contract.AnnNodeUID, "") }, nil, nil},
		{"node has another hostname now", "release", func(s *scene) {
			s.exists("old")
			s.node.Labels = map[string]string{corev1.LabelHostname: "host-b"}
		}, nil, nil},
		{"another node has the hostname", "release", func(s *scene) {
			s.host = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-02", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
		}, []string{"delete c", "delete pvc-2", "event VolumeNodeGone data", "event VolumeNodeGone pvc-1", "event VolumeReleased pvc-2"}, tally{kept: 1, removing: 1}},
		{"another node has the hostname, since just now", "release", func(s *scene) {
			s.csi, s.capacity, s.seen = nil, nil, 0
			s.host = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-02", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
		}, nil, nil},
		{"deleted under the agent of another namespace", "release", func(s *scene) {
			s.answers(corev1.ConditionTrue)
			s.agent.Namespace, s.agent.Labels = "other", map[string]string{"k8s-app": "hostpath-provisioner"}
		}, nil, nil},
		{"rebuilt, with an agent of another namespace only", "release", func(s *scene) {
			s.replaced(corev1.ConditionTrue)
			s.agent.Namespace, s.agent.Labels = "other", map[string]string{"k8s-app": "hostpath-provisioner"}
			s.mark(contract.AnnMissing, "volume/new")
		}, reported[1:], tally{kept: 2}},
		{"given up, on a claim", "", func(s *scene) {
			s.abandoned("pvc-2")
			s.pv, s.claim = nil, nil
			s.onClaim = "local"
		}, []string{"event VolumeNodeGone pvc-2"}, tally{kept: 1}},
		{"given up by its pool, on a claim", "", func(s *scene) {
			s.abandoned("pvc-2")
			s.pv, s.claim = nil, nil
			s.onClaim, s.node.Annotations[contract.AnnGiveUp] = "local", "6e0c"
		}, []string{noted("pvc-2", "new")}, tally{removing: 1}},
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
		{"re-registered, bound again", "release", func(s *scene) { s.replaced(corev1.ConditionTrue); s.mark(contract.AnnNodeUID, "new") }, nil, nil},
		{"rebuilt, PV waits for its agent", "delete", func(s *scene) { s.replaced(corev1.ConditionFalse); s.unclaimed(); s.csi = nil }, nil, tally{released: 1}},
		{"rebuilt, the volume is missing", "release", func(s *scene) {
			s.replaced(corev1.ConditionTrue)
			s.csi.Annotations[contract.AnnMissing] = "volume/new"
		}, []string{"delete pvc-2", "event VolumeNodeGone data", "event VolumeNodeGone pvc-1", "event VolumeReleased pvc-2"}, tally{kept: 1, removing: 1}},
		{"rebuilt, the volume is missing, and the pool is open", "release", func(s *scene) {
			s.replaced(corev1.ConditionTrue)
			s.publishes("node-01", "agent", "6e0c")
			s.csi.Annotations[contract.AnnMissing] = "volume/new"
		}, []string{"delete pvc-2", "event VolumeNodeGone data", "event VolumeNodeGone pvc-1", "event VolumeReleased pvc-2"}, tally{kept: 1, removing: 1}},
		{"rebuilt, the volume was missing, and the pool is not open any more", "release", func(s *scene) {
			s.replaced(corev1.ConditionTrue)
			s.publishes("node-01", "agent", "another")
			s.mark(contract.AnnMissing, "volume/new")
		}, reported[1:], tally{kept: 2}},
		{"rebuilt, the agent before had the pool open", "release", func(s *scene) {
			s.replaced(corev1.ConditionTrue)
			s.publishes("node-01", "earlier", "6e0c")
			s.mark(contract.AnnMissing, "volume/new")
		}, reported[1:], tally{kept: 2}},
		{"its disk is open on another node, without a PV there", "release", func(s *scene) {
			s.capacity, s.csi = nil, nil
			s.host = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-02", UID: "2"}}
			s.publishes("node-02", "other", "6e0c")
		}, []string{"event VolumeNodeGone data", "event VolumeNodeGone pvc-1"}, tally{kept: 1}},
		{"its disk was open on a node that is gone, too", "release", func(s *scene) {
			s.capacity, s.csi = nil, nil
			s.publishes("node-02", "other", "6e0c")
		}, []string{"delete data", "event VolumeReleased data"}, tally{removing: 1}},
		{"rebuilt, empty disk", "release", func(s *scene) { s.replaced(corev1.ConditionFalse); s.mark(contract.AnnMissing, "pool/new") }, reported[1:], tally{kept: 2}},
		{"given up under keep", "", func(s *scene) { s.abandoned("pvc-1") },
			[]string{"event VolumeNodeGone pvc-2", noted("pvc-1", "new")}, tally{kept: 1, removing: 1}},
		{"given up and noted", "", func(s *scene) { s.abandoned("pvc-1"); s.pv.Annotations[contract.AnnGivenUp] = "new" },
			[]string{"delete data", "event VolumeNodeGone pvc-2", "event VolumeReleased data"}, tally{kept: 1, removing: 1}},
		{"given up under delete", "delete", func(s *scene) { s.abandoned("pvc-1"); s.csi = nil }, []string{noted("pvc-1", "new")}, tally{removing: 1}},
		{"given up, second pool bound", "", func(s *scene) { s.abandoned("pvc-1"); s.csi.Annotations[contract.AnnNodeUID] = "new" },
			[]string{noted("pvc-1", "new")}, tally{removing: 1}},
		{"given up, PV of another cluster", "release", func(s *scene) { s.abandoned("pvc-1"); s.csi = nil; s.mark(contract.AnnCluster, "b") },
			[]string{"event VolumeNodeGone data", "event VolumeNodeGone pvc-1"}, tally{kept: 1}},
		{"a disk replaced", "", func(s *scene) {
			s.abandoned("pvc-1")
			s.mark(contract.AnnNodeUID, "new")
			s.node.Annotations[contract.AnnGiveUp] = "6e0c"
		},
			[]string{noted("pvc-1", "new")}, tally{removing: 1}},
		{"a disk replaced, reported just now", "", func(s *scene) {
			s.abandoned("pvc-1")
			s.mark(contract.AnnNodeUID, "new")
			s.node.Annotations[contract.AnnGiveUp], s.seen = "6e0c", 0
		}, nil, nil},
		{"a disk replaced that came back", "", func(s *scene) {
			s.replaced(corev1.ConditionTrue)
			s.mark(contract.AnnNodeUID, "new")
			s.node.Annotations = map[string]string{contract.AnnGiveUp: "6e0c"}
		}, nil, nil},
		{"applied before its node joins", "release", func(s *scene) { s.mark(contract.AnnCluster, "b") }, reported, tally{kept: 2}},
		{"gone before the upgrade", "release", func(s *scene) { s.mark(contract.AnnCluster, "") }, reported, tally{kept: 2}},
		{"upgrade, node exists", "release", func(s *scene) { s.exists("old"); s.mark(contract.AnnCluster, ""); s.csi = nil },
			[]string{`patch pvc-1 {"metadata":{"annotations":{"` + contract.AnnCluster + `":"c"},"resourceVersion":"1","uid":"pvc-1"}}`}, nil},
		{"upgrade, node registered again", "release", func(s *scene) { s.exists("new"); s.mark(contract.AnnCluster, ""); s.seen = 0 }, nil, nil},
		{"its pool is on another node", "release", func(s *scene) {
			s.csi.Annotations[contract.AnnNodeUID], s.capacity, s.claim = "2", nil, nil
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
			s.pv.Annotations[contract.AnnProvisionOnNode] = "node-02"
			s.csi.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "node-02"
		}},
		{"PVs are gone", "release", func(s *scene) { s.pv, s.csi = nil, nil }},
		{"bound to the node by its agent", "release", func(s *scene) { s.mark(contract.AnnMissing, ""); s.mark(contract.AnnNodeUID, "new") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(row.policy)
			if s.capacity = nil; strings.HasPrefix(row.name, "bound") {
				s.abandoned("pvc-1")
				s.mark(contract.AnnMissing, "pool/new")
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

// A Node may be created after the one of its name was found absent, and before the Nodes with its
// hostname are listed: it answers.
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
	r.since["node-01"] = silence{at: time.Now().Add(-2 * grace)}
	if err := w.pass(r); err != nil || len(w.done) > 0 {
		t.Errorf("written %q, %v", w.done, err)
	}
}
