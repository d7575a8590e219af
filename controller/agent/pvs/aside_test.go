package pvs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/volume"
)

// TestUnfinishedDeletion has a volume whose deletion stopped after its directory was moved to the
// trash, and a PV that was changed since, or was not. The volume comes back unless the PV may still
// delete it, and then no one but Delete finishes it.
func TestUnfinishedDeletion(t *testing.T) {
	for what, row := range map[string]struct {
		story   func(*life)
		deletes bool
	}{
		"still to be deleted": {func(l *life) { l.released() }, true},
		"kept by its policy": {func(l *life) {
			l.released()
			l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		"kept by its policy, and deleted by hand": {func(l *life) {
			l.released()
			l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			l.pv.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, false},
		"bound again":            {func(*life) {}, false},
		"waits for a claim":      {func(l *life) { l.released(); l.pv.Spec.ClaimRef.UID = "" }, false},
		"another PV object":      {func(l *life) { l.again() }, false},
		"given to another claim": {func(l *life) { l.released(); l.pv.Spec.ClaimRef.UID = nextUID }, false},
	} {
		for _, className := range []string{"wait", "csi"} {
			l := newLife(t, className)
			l.bound()
			l.see()
			directory := filepath.Join(l.pool.Path(), l.name)
			l.must(os.WriteFile(filepath.Join(directory, "data"), []byte("precious"), 0o600))
			r, _ := l.pool.Cached(l.name)
			l.away(func(dir string) {
				l.must(os.Rename(filepath.Join(dir, l.name), filepath.Join(dir, ".hostpath-provisioner/trash", r.Trash)))
			})
			if row.story(l); row.deletes {
				l.see()
				if _, err := l.pool.Get(l.name); !errors.Is(err, volume.ErrSetAside) {
					t.Errorf("%s, %s: once it was synced: %v", className, what, err)
				}
				if err := errors.Join(l.Deletable(l.pv), l.Delete(t.Context(), l.pv)); err != nil || len(l.pool.SetAside()) > 0 {
					t.Errorf("%s, %s: not deleted: %v", className, what, err)
				}
				continue
			}
			l.serve()
			if l.Deletable(l.pv) == nil && l.pv.Status.Phase == corev1.VolumeReleased && l.pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
				t.Errorf("%s, %s: deletable", className, what)
			}
			l.must(l.informer.GetStore().Add(l.pv))
			if err := l.sync(t.Context(), l.pv.Name); !errors.Is(err, errPending) {
				t.Errorf("%s, %s: %v", className, what, err)
			}
			if data, err := os.ReadFile(filepath.Join(directory, "data")); string(data) != "precious" || err != nil {
				t.Errorf("%s, %s: %q, %v", className, what, data, err)
			}
			if _, err := l.pool.Get(l.name); err != nil {
				t.Errorf("%s, %s: %v", className, what, err)
			}
		}
	}
}

// TestUnfinishedDeletionOfAnotherPV has a PV that names the place of such a volume and is not the
// one in the record. It does not bring the volume back.
func TestUnfinishedDeletionOfAnotherPV(t *testing.T) {
	for _, className := range []string{"wait", "csi"} {
		l := newLife(t, className)
		l.bound()
		l.see()
		r, _ := l.pool.Cached(l.name)
		l.away(func(dir string) {
			l.must(os.Rename(filepath.Join(dir, l.name), filepath.Join(dir, ".hostpath-provisioner/trash", r.Trash)))
		})
		l.pv.Name += "-other"
		l.see()
		if _, err := l.pool.Get(l.name); !errors.Is(err, volume.ErrSetAside) {
			t.Errorf("%s: %v", className, err)
		}
	}
}
