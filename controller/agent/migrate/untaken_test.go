package migrate

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// mutate has a webhook change PVs that are patched, or created, dry runs too if it is to. The
// controller-manager binds those that are created.
func mutate(m *Migrator, verb string, dry bool, change func(*corev1.PersistentVolume)) (sent *int) {
	client, n := m.Client.(apitest.Lister), 0
	client.PrependReactor(verb, "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if isDry(a) && !dry {
			return false, nil, nil
		}
		var pv *corev1.PersistentVolume
		switch a := a.(type) {
		case clienttesting.PatchActionImpl:
			pv = wouldBe(client.Tracker(), a)
			change(pv)
			if !isDry(a) {
				n++
				return true, pv, client.Tracker().Update(a.GetResource(), pv, "")
			}
		case clienttesting.CreateActionImpl:
			pv = a.Object.(*corev1.PersistentVolume).DeepCopy()
			change(pv)
			if !isDry(a) {
				n++
				pv.UID, pv.Status.Phase = types.UID("new-"+pv.Name), corev1.VolumeBound
				return true, pv, client.Tracker().Add(pv)
			}
		}
		return true, pv, nil
	})
	return &n
}

func keepsDelete(pv *corev1.PersistentVolume) {
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
}

// A webhook that puts back the reclaim policy is noticed before anything is written, or else after
// one write; the migration is cancelled and not tried again for minutes.
func TestPolicyThatDoesNotStay(t *testing.T) {
	for _, dry := range []bool{true, false} {
		m, pvs := many(t, 2)
		sent := mutate(m, "patch", dry, keepsDelete)
		said := &warnings{Events: m.Events}
		m.Events = said
		for range 3 {
			m.work(t.Context(), m.check(t.Context()))
		}
		if most := map[bool]int{true: 0, false: 4}[dry]; *sent > most { // to set it, and to take the annotation away
			t.Errorf("dry: %v, %d patches, want %d", dry, *sent, most)
		}
		if open, err := pvs.pool.Migrations(); err != nil || len(open) > 0 {
			t.Errorf("dry: %v, open: %+v, %v", dry, open, err)
		}
		if !strings.Contains(said.claim, "its reclaim policy stays Delete") {
			t.Errorf("dry: %v, event %q", dry, said.claim)
		}
		for _, f := range m.check(t.Context()) {
			if f.Verdict != Refused {
				t.Errorf("dry: %v, %s: %s", dry, f.Verdict, f.Reason)
			}
		}
	}
}

// Another program that puts the policy back a moment later ends the migration after its first write.
func TestPolicyThatComesBack(t *testing.T) {
	m, j := begun(t, func(*corev1.PersistentVolume) {})
	client, patches := m.Client.(apitest.Lister), 0
	client.PrependReactor("patch", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patches++
		now := wouldBe(client.Tracker(), a.(clienttesting.PatchActionImpl))
		later := now.DeepCopy()
		keepsDelete(later)
		return true, now, client.Tracker().Update(a.GetResource(), later, "")
	})
	if err := m.move(t.Context(), j); err == nil || patches > 2 {
		t.Errorf("%d patches, %v", patches, err)
	}
	if r, ok := j.pool.Cached(j.volume); !ok || r.Migrating() != nil {
		t.Errorf("journal %+v", r.Migration)
	}
}

// Past the deletion of the old PV a write that has no effect stops the migration with words.
func TestUntakenPastTheDeletion(t *testing.T) {
	m, j := begun(t, func(pv *corev1.PersistentVolume) {
		pv.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		pv.Finalizers = []string{contract.Finalizer}
	})
	if err := j.advance(record.CutOver()); err != nil {
		t.Fatal(err)
	}
	j.step = record.MigrationCutover
	sent := mutate(m, "patch", false, keepsDelete)
	said := &warnings{Events: m.Events}
	m.Events = said
	_ = m.move(t.Context(), j)
	if *sent != 1 || !strings.Contains(said.pv, "its reclaim policy stays Delete") {
		t.Errorf("%d patches, event %q", *sent, said.pv)
	}
}

// What a webhook makes of the new PV is known before the old one is deleted. One that only takes
// annotations away makes a PV that the journal recognises, and that gets its policy.
func TestMutatedSuccessor(t *testing.T) {
	for what, row := range map[string]struct {
		change func(*corev1.PersistentVolume)
		goes   bool
	}{
		"no annotation": {func(pv *corev1.PersistentVolume) { pv.Annotations = nil }, true},
		"another annotation alone": {func(pv *corev1.PersistentVolume) {
			pv.Annotations = map[string]string{contract.AnnReplaces: pv.Annotations[contract.AnnReplaces]}
		}, false},
		"another source": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes["tier"] = "gold" }, false},
		"another policy": {keepsDelete, false},
	} {
		m, pvs := many(t, 3)
		for _, pv := range pvs.all {
			keepsDelete(pv)
			if err := m.Client.(apitest.Lister).Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), pv, ""); err != nil {
				t.Fatal(err)
			}
		}
		sent := mutate(m, "create", true, row.change)
		said := &warnings{Events: m.Events}
		m.Events = said
		m.work(t.Context(), m.check(t.Context()))
		open, err := pvs.pool.Migrations()
		if err != nil || len(open) > 0 {
			t.Errorf("%s: open: %+v, %v", what, open, err)
		}
		if *sent > 0 != row.goes || !row.goes && !strings.Contains(said.claim, "the PV that replaces it") {
			t.Errorf("%s: %d PVs created, event %q", what, *sent, said.claim)
		}
		for _, was := range pvs.all {
			pv, err := m.Client.CoreV1().PersistentVolumes().Get(t.Context(), was.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if row.goes && (pv.Spec.CSI == nil || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete) {
				t.Errorf("%s: %+v", what, pv.Spec)
			}
		}
	}
}

// A webhook keeps the annotation that a migration which is cancelled takes away, or that an older version
// left. The claim is told why nothing goes on, and the PV is not written at each check without that.
func TestAnnotationThatStays(t *testing.T) {
	stays := func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnPolicy] = "Delete" }
	t.Run("cancelled", func(t *testing.T) {
		m, j := begun(t, func(*corev1.PersistentVolume) {})
		if _, err := m.next(t.Context(), j); err != nil { // retain
			t.Fatal(err)
		}
		mutate(m, "patch", false, stays)
		said := &warnings{Events: m.Events}
		m.Events, m.Mode = said, settings.MigrateOff
		if err := m.move(t.Context(), j); !errors.Is(err, errStopped) || !strings.Contains(said.claim, "its annotation "+contract.AnnPolicy+" stays") {
			t.Errorf("%v, event %q", err, said.claim)
		}
		if err := j.pool.Delete(pvName); !errors.Is(err, volume.ErrMigrating) {
			t.Errorf("it is not being migrated: %v", err)
		}
	})
	t.Run("of an older version", func(t *testing.T) {
		m, _ := stalePolicy(t)
		sent := mutate(m, "patch", false, stays)
		said := &warnings{Events: m.Events}
		m.Events = said
		for range 3 {
			m.work(t.Context(), m.check(t.Context()))
		}
		if *sent != 1 || !strings.Contains(said.claim, "its annotation "+contract.AnnPolicy+" stays") {
			t.Errorf("%d patches, event %q", *sent, said.claim)
		}
	})
}

// An event on a PV that is bound to a claim does not advise to delete it.
func TestBoundStrangerIsKept(t *testing.T) {
	for phase, deletes := range map[corev1.PersistentVolumePhase]bool{corev1.VolumeBound: false, corev1.VolumeReleased: true} {
		m, j := begun(t, func(pv *corev1.PersistentVolume) { pv.UID, pv.Status.Phase = "stranger", phase })
		if err := j.advance(record.CutOver()); err != nil {
			t.Fatal(err)
		}
		j.step = record.MigrationCutover
		said := &warnings{Events: m.Events}
		m.Events = said
		_ = m.move(t.Context(), j)
		if strings.Contains(said.pv, "delete it") != deletes || said.pv == "" {
			t.Errorf("%s: %q", phase, said.pv)
		}
	}
}

// Another PV that was made a moment ago may be bound in the next: the migration waits, and says nothing
// that its event would still say then.
func TestStrangerThatMayBeBoundSoon(t *testing.T) {
	for _, phase := range []corev1.PersistentVolumePhase{"", corev1.VolumePending} {
		m, j := begun(t, func(pv *corev1.PersistentVolume) { pv.UID, pv.Status.Phase = "stranger", phase })
		if err := j.advance(record.CutOver()); err != nil {
			t.Fatal(err)
		}
		j.step = record.MigrationCutover
		if s, err := m.next(t.Context(), j); s != waits || err != nil {
			t.Errorf("%q: %v, %v", phase, s, err)
		}
	}
}
