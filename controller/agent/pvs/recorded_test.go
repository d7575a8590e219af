package pvs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// TestRetainIsRecorded has a PV that is bound and seen, and then gets policy Retain while something
// else is wrong with it. Its finalizer stays until the record has the policy, and nothing else of the
// record changes.
func TestRetainIsRecorded(t *testing.T) {
	setAside := func(l *life) {
		r, _ := l.pool.Cached(l.name)
		l.away(func(dir string) {
			l.must(os.Rename(filepath.Join(dir, l.name), filepath.Join(dir, ".hostpath-provisioner/trash", r.Trash)))
		})
		// Another directory has its place, so that it cannot come back.
		l.must(os.Mkdir(filepath.Join(l.pool.Path(), l.name), 0o700))
	}
	for what, row := range map[string]struct {
		story func(*life)
		not   bool // the PV does not wait, and the record keeps the policy
	}{
		"an annotation names another node": {story: func(l *life) {
			l.pv.Annotations[contract.AnnProvisionOnNode] = "node-02"
			l.pv.Labels[contract.LabelNode] = "node-02"
		}},
		"an annotation names another provisioner": {story: func(l *life) {
			l.pv.Annotations[contract.AnnProvisionedBy] = contract.LocalPathProvisioner
		}},
		"its claimRef names another claim":  {story: func(l *life) { l.pv.Spec.ClaimRef.UID = nextUID; delete(l.pv.Annotations, contract.AnnPool) }},
		"its volume is set aside":           {story: setAside},
		"an orphan was noted":               {story: func(l *life) { l.pool.NoteOrphan(l.name, "gone", 0); setAside(l) }},
		"it names the UUID of another pool": {story: func(l *life) { l.pv.Annotations[contract.AnnPool] = "another" }, not: true},
		"another PV has the volume":         {story: func(l *life) { l.rewrite(func(r map[string]any) { r["pv"] = "another" }) }, not: true},
		"its PV is being replaced":          {story: func(l *life) { l.migrating(); l.pv.Annotations[contract.AnnPolicy] = "Delete" }, not: true},
		"it has policy Delete, refused":     {story: func(l *life) { l.pv.Annotations[contract.AnnProvisionOnNode] = "node-02" }, not: true},
	} {
		for _, className := range []string{"wait", "csi"} {
			l := newLife(t, className)
			l.bound()
			l.see()
			l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			if what == "it has policy Delete, refused" {
				l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			}
			row.story(l)
			l.released()
			l.pv.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			before, _ := l.pool.Cached(l.name)
			if err := l.CheckRecorded(l.pv); (err == nil) != row.not {
				t.Errorf("%s, %s: held: %v", className, what, err)
			}
			l.serve()
			l.must(l.informer.GetStore().Add(l.pv))
			_ = l.sync(t.Context(), l.pv.Name)
			after, _ := l.pool.Cached(l.name)
			if after.ReclaimPolicy != map[bool]string{true: "Delete", false: "Retain"}[row.not] {
				t.Errorf("%s, %s: recorded %q", className, what, after.ReclaimPolicy)
			}
			if err := l.CheckRecorded(l.pv); err != nil {
				t.Errorf("%s, %s: still held: %v", className, what, err)
			}
			before.ReclaimPolicy, before.Migration, after.Migration = after.ReclaimPolicy, nil, nil
			if before != after {
				t.Errorf("%s, %s: the record was\n%+v and is\n%+v", className, what, before, after)
			}
		}
	}
}

// A person sets a PV to Retain whose migration has begun and has not written to the PV yet, so that it
// will be cancelled. The finalizer stays until then, and until the record has the policy.
func TestRetainBeforeTheMigrationHasIt(t *testing.T) {
	l := newLife(t, "wait")
	l.bound()
	l.see()
	l.migrating()
	l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	l.released()
	l.pv.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	l.see()
	if err := l.CheckRecorded(l.pv); err == nil {
		t.Error("not held")
	}
	l.must(l.pool.AdvanceMigration(l.name, record.CancelMigration()))
	l.see()
	if r, _ := l.pool.Cached(l.name); r.ReclaimPolicy != "Retain" || l.CheckRecorded(l.pv) != nil {
		t.Errorf("recorded %q, held: %v", r.ReclaimPolicy, l.CheckRecorded(l.pv))
	}
}

func (l *life) migrating() {
	l.t.Helper()
	_, err := l.pool.BeginMigration(l.name, record.Migration{To: "csi", Old: []byte(`{}`), New: []byte(`{}`)})
	l.must(err)
}
