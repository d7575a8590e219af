package suite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A PV that was saved, as a backup of objects does, is applied again, to this cluster or to one
// that was built on the same disks. It is Released at once, because its claim is absent, and its
// policy is Delete. It deletes nothing until an administrator names its UID.
func TestOldPVAppliedAgain(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		before bool                 // the PV is applied before the agent starts
		record func(map[string]any) // changes the record while no agent runs
		words  string
	}{
		"while the agent runs": {words: "a former PV of this name"},
		"before it starts":     {before: true, words: "a former PV of this name"},
		"to another cluster":   {before: true, record: func(r map[string]any) { r["cluster"] = "another" }, words: "another cluster"},
		"with an upgrade": {before: true, record: func(r map[string]any) {
			delete(r, "pvUID")
			r["created"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) // the PV's creation is an hour away from it
		}, words: "was not created with the volume"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			eachShape(t, func(t *testing.T, r *reused) {
				saved := r.pv.DeepCopy()
				saved.ObjectMeta = metav1.ObjectMeta{Name: saved.Name, Labels: saved.Labels, Annotations: saved.Annotations, Finalizers: saved.Finalizers}
				saved.Status = corev1.PersistentVolumeStatus{}
				r.keep()
				r.ForcePVAway(saved.Name)
				if row.before {
					r.a.Stop()
				}
				if row.record != nil {
					rewrite(r.Scene, r.a.Pool, saved.Name, row.record)
				}
				r.pv = save(r.Scene, saved)
				r.Released(saved.Name)
				if row.before {
					r.a.Restart()
					r.a.AwaitReady()
				}
				told := func() error {
					return onlyWarning(r.Scene, r.pv, harness.ReasonDelete, row.words, annDeleteVolume+"="+string(r.pv.UID), "Retain")
				}
				r.Eventually("event", told)
				r.Holds(r.a, "it stays", func() error { return firstError(r.stays(), told()) })
				r.PatchPV(r.pv.Name, `{"metadata":{"annotations":{"`+annDeleteVolume+`":"`+string(r.pv.UID)+`"}}}`)
				r.Gone(r.pv.Name)
				r.Eventually("empty pool", func() error { return empty(r.Scene, r.a) })
			})
		})
	}
}

const annDeleteVolume = "hostpath-provisioner.kubevirt.io/delete-volume"

// rewrite changes the record of a volume. No agent runs.
func rewrite(s *harness.Scene, pool, name string, change func(map[string]any)) {
	s.Helper()
	path := filepath.Join(pool, ".hostpath-provisioner/records", name)
	data, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(data, &r); err != nil {
		s.Fatal(err)
	}
	change(r)
	if data, err = json.Marshal(r); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.Fatal(err)
	}
}
