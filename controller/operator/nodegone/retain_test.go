package nodegone

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// deletes reports whether the agent of the PV's node deletes its directory, now or at the end of a
// migration.
func deletes(pv *corev1.PersistentVolume) bool {
	return pv != nil && (contract.Released(pv) || pv.DeletionTimestamp != nil) && contract.Policy(pv) == corev1.PersistentVolumeReclaimDelete
}

// TestReleaseKilled has the operator killed after each write of release. The node comes back, and
// another operator runs: the directory exists at every moment, and a PV whose claim is still there
// has its policy again.
func TestReleaseKilled(t *testing.T) {
	for writes := 0; ; writes++ {
		s := newScene("release")
		s.csi, s.capacity = nil, nil
		s.pv.Annotations[contract.AnnNodeUID], s.pv.Spec.PersistentVolumeReclaimPolicy = "old", corev1.PersistentVolumeReclaimDelete
		w := newWorld(t, s.objects()...)
		w.writes = writes
		r := w.operator()
		r.since["node-01"] = silence{at: time.Now().Add(-2 * grace)}
		for range 8 {
			if err := w.pass(r); err != nil {
				break
			}
		}
		killed := slices.Clone(w.done)
		if pv := w.pv("pvc-1"); deletes(pv) {
			t.Errorf("killed after %q: the agent of a node that comes back deletes the directory", killed)
		}
		w.put("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "old", Labels: map[string]string{corev1.LabelHostname: "host-a"}}})
		s.answers(corev1.ConditionTrue)
		w.put("pods", s.agent)
		w.writes = -1
		next := w.operator()
		for range 4 {
			if err := w.pass(next); err != nil {
				t.Errorf("killed after %q: %v", killed, err)
			}
			if pv := w.pv("pvc-1"); deletes(pv) {
				t.Errorf("killed after %q, then %q: the agent deletes the directory", killed, w.done[len(killed):])
			}
		}
		if pv := w.pv("pvc-1"); pv != nil && pv.Status.Phase == corev1.VolumeBound &&
			(pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || pv.Annotations[contract.AnnFormerPolicy] != "") {
			t.Errorf("killed after %q: the PV of a claim that stays has the policy %s, want Delete again", killed, pv.Spec.PersistentVolumeReclaimPolicy)
		}
		if len(killed) < writes {
			if want := []string{"patch persistentvolumes", "delete persistentvolumeclaims", "delete persistentvolumes", "patch persistentvolumes"}; !slices.Equal(killed, want) {
				t.Errorf("release wrote %q, want %q", killed, want)
			}
			return
		}
	}
}

// TestRestore has the node back. The policy comes back only while the claim that is bound to the PV
// stays.
func TestRestore(t *testing.T) {
	deleting := &metav1.Time{Time: time.Now()}
	for _, row := range []struct {
		name     string
		spoil    func(*scene)
		restored bool
	}{
		{"claim stays", func(*scene) {}, true},
		{"claim is being deleted", func(s *scene) {
			s.claim.DeletionTimestamp, s.claim.Finalizers = deleting, []string{"kubernetes.io/pvc-protection"}
		}, false},
		{"claim is gone", func(s *scene) { s.unclaimed() }, false},
		{"claim is gone, the PV not yet Released", func(s *scene) { s.claim = nil }, false},
		{"claim of the same name", func(s *scene) { s.claim.UID = "2" }, false},
		{"claim has another PV", func(s *scene) { s.claim.Spec.VolumeName = "pvc-9" }, false},
		{"PV is being deleted", func(s *scene) { s.pv.DeletionTimestamp = deleting }, false},
		{"agent has not bound it yet", func(s *scene) { s.pv.Annotations[contract.AnnNodeUID] = "old" }, false},
		{"no agent has bound it", func(s *scene) { s.pv.Annotations[contract.AnnNodeUID] = "" }, false},
		{"the pool is reported missing", func(s *scene) { s.pv.Annotations[contract.AnnMissing] = "pool/new" }, false},
		{"node is not back", func(s *scene) { s.node, s.agent = nil, nil }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene("release")
			s.replaced(corev1.ConditionTrue)
			s.csi, s.capacity = nil, nil
			s.pv.Annotations[contract.AnnNodeUID], s.pv.Annotations[contract.AnnFormerPolicy] = "new", "Delete"
			row.spoil(s)
			r, writes := s.reconciler(t, nil)
			if err := r.restore(context.Background(), s.pv); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`patch pvc-1 {"metadata":{"annotations":{%q:null},"resourceVersion":"1","uid":"pvc-1"},"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`, contract.AnnFormerPolicy)
			if got := writes(); !row.restored && len(got) > 0 || row.restored && !slices.Equal(got, []string{want}) {
				t.Errorf("written %q, want it restored: %t", got, row.restored)
			}
		})
	}
}

// TestRetainEndsMigration has release take the annotation of a migration along, which restores the
// policy by itself.
func TestRetainEndsMigration(t *testing.T) {
	s := newScene("release")
	s.csi, s.capacity = nil, nil
	s.pv.Annotations[contract.AnnPolicy] = "Delete"
	w := newWorld(t, s.objects()...)
	r := w.operator()
	r.since["node-01"] = silence{at: time.Now().Add(-2 * grace)}
	for range 8 {
		if err := w.pass(r); err != nil {
			t.Fatal(err)
		}
		if deletes(w.pv("pvc-1")) {
			t.Fatalf("after %q the migrator restores the policy Delete", w.done)
		}
	}
	if w.pv("pvc-1") != nil {
		t.Error("the PV is still there")
	}
}
