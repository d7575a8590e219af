package suite

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	reasonMigrationStopped = "MigrationStopped"
	someonesFinalizer      = "example.com/keep"
)

// killedBefore has the volume's agent, which migrates as the mode says, killed before that step.
func (h *hosted) killedBefore(step, mode string) {
	h.Helper()
	killedAs(h.Scene, h.a, bothModes(mode), "migrate."+step)
}

// wantSame checks that the directory is the one it was, with its data.
func (h *hosted) wantSame() {
	h.Helper()
	if got := h.find(); got != h.inode {
		h.Errorf("inode %d, was %d", got, h.inode)
	}
}

// forceAway removes somebody's PV, whatever holds it. The migration may have its own there at once.
func (h *hosted) forceAway(pv *corev1.PersistentVolume) {
	h.Helper()
	pvs := env.Client.CoreV1().PersistentVolumes()
	if err := pvs.Delete(h.Context(), pv.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pv.UID}}); err != nil {
		h.Fatal(err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":null}}`, pv.UID)
	_, err := pvs.Patch(h.Context(), pv.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		h.Fatal(err)
	}
}

// stopped returns nil where the journal and an event on the claim say why the migration does not go
// on.
func (h *hosted) stopped(words string) error {
	if m := h.a.Volume(h.pv.Name).Migration; m == nil || !strings.Contains(m.Stopped, words) {
		return fmt.Errorf("journal %+v, want it stopped: %q", m, words)
	}
	return h.Warned(h.claim.UID, reasonMigrationStopped, words)
}

// Somebody's PV takes the name while there is none. It is left alone, also where the claim is bound
// to it; once it is gone the migration goes on.
func TestMigrateStrangersPV(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]*corev1.ObjectReference{
		"of another claim": {Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: "other", UID: "00000000-1111-4222-8333-444444444444"},
		"of nobody":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newHosted(s, a)
			h.killedBefore("create", "run")
			stranger := h.pv.DeepCopy()
			stranger.ObjectMeta = metav1.ObjectMeta{Name: h.pv.Name}
			stranger.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			stranger.Spec.HostPath.Path = "/somewhere/else"
			stranger.Spec.ClaimRef = ref
			stranger.Spec.StorageClassName = s.ClassName("strangers") // claims of other tests would take it
			stranger = save(s, stranger)
			a.RestartAs(bothModes("run"))
			// One without a claimRef is soon bound to the claim, which names it: the text is another one then.
			s.Eventually("stopped", func() error { return h.stopped("this migration") })
			s.Checked(a)
			s.Once("the stranger's PV stays", func() error {
				pv, err := h.now()
				if err == nil && (pv.UID != stranger.UID || pv.DeletionTimestamp != nil || len(pv.Annotations[annPolicy]) > 0) {
					err = fmt.Errorf("PV %+v", pv.ObjectMeta)
				}
				return err
			})
			h.wantSame()
			h.forceAway(stranger)
			s.Eventually("migrated", h.isCSI)
			h.wantSame()
		})
	}
}

// The claim is deleted while there is no PV: the data is kept, for a person to judge.
func TestMigrateClaimDeleted(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"delete", "release", "create", "restore"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newHosted(s, a)
			h.killedBefore(step, "run")
			s.Delete(h.claim)
			s.ClaimGone(h.claim)
			a.RestartAs(bothModes("run"))
			if step == "delete" { // the first PV is there: it goes as its policy says, at the latest when all are looked at again
				s.Eventually("PV gone", func() error { return s.IsGone(h.pv.Name) })
				s.Eventually("empty pool", func() error { return empty(s, a) })
				return
			}
			s.Eventually("over", func() error {
				m := a.Volume(h.pv.Name).Migration
				if m == nil || m.Step != "done" || !strings.Contains(m.Stopped, "was deleted during the migration") {
					return fmt.Errorf("journal %+v", m)
				}
				return nil
			})
			s.Released(h.pv.Name)
			pv := s.PV(h.pv.Name)
			if pv.Spec.CSI == nil || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || pv.Annotations[annPolicy] != "" {
				t.Errorf("PV %+v", pv.Spec)
			}
			s.AwaitWarning(a, pv.UID, reasonMigrationStopped, "was deleted during the migration")
			h.wantSame()
			s.PatchPV(pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
			s.Gone(pv.Name)
			s.Eventually("empty pool", func() error { return empty(s, a) })
		})
	}
}

// Somebody edits the PV before it is deleted: nothing of that is lost, and the volume is migrated
// later.
func TestMigrateEdited(t *testing.T) {
	t.Parallel()
	s, a := migrating(t)
	h := newHosted(s, a)
	h.killedBefore("delete", "run")
	s.PatchPV(h.pv.Name, `{"metadata":{"labels":{"app":"db"}},"spec":{"mountOptions":["noatime"]}}`)
	a.RestartAs(bothModes("run"))
	s.Eventually("migrated", h.isCSI)
	if pv := s.PV(h.pv.Name); pv.Labels["app"] != "db" || len(pv.Spec.MountOptions) != 1 {
		t.Errorf("labels %v, mount options %v", pv.Labels, pv.Spec.MountOptions)
	}
	if !strings.Contains(a.Log(), "the PV was edited") {
		t.Error("the agent did not say that the PV was edited")
	}
	h.wantSame()
}

// What somebody else's finalizer keeps is not migrated, and does not go on where it was deleted by
// somebody else.
func TestMigrateFinalizer(t *testing.T) {
	t.Parallel()
	add := fmt.Sprintf(`{"metadata":{"finalizers":["kubernetes.io/pv-protection",%q,%q]}}`, finalizer, someonesFinalizer)
	const remove = `{"metadata":{"finalizers":["kubernetes.io/pv-protection"]}}`
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		s, a := migrating(t)
		h := newHosted(s, a)
		h.killedBefore("delete", "run")
		s.PatchPV(h.pv.Name, add)
		a.RestartAs(bothModes("run"))
		a.AwaitReady()
		s.Eventually("refused, and as it was", func() error {
			if pv := s.PV(h.pv.Name); pv.UID != h.pv.UID || pv.Spec.PersistentVolumeReclaimPolicy != "Delete" || pv.Annotations[annPolicy] != "" {
				return fmt.Errorf("PV %+v", pv)
			}
			return a.MetricIs(1, "kubevirt_hpp_migration_volumes", `verdict="refused"`)
		})
		s.PatchPV(h.pv.Name, remove)
		s.Eventually("migrated", h.isCSI)
		h.wantSame()
	})
	t.Run("deleted meanwhile", func(t *testing.T) {
		t.Parallel()
		s, a := migrating(t)
		h := newHosted(s, a)
		h.killedBefore("delete", "run")
		s.PatchPV(h.pv.Name, add)
		if err := env.Client.CoreV1().PersistentVolumes().Delete(s.Context(), h.pv.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		a.RestartAs(bothModes("run"))
		s.Eventually("stopped", func() error { return h.stopped(someonesFinalizer) })
		h.wantSame()
		s.PatchPV(h.pv.Name, remove)
		s.Eventually("migrated", h.isCSI)
		h.wantSame()
	})
}
