package pvs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// TestWatchWithoutLabels filters a watch of all PVs: it keeps those with the node label, and those
// that lack it.
func TestWatchWithoutLabels(t *testing.T) {
	c := newPVs(t)
	local := validPV(c, "now")
	older := local.DeepCopy()
	older.Labels = nil
	other := older.DeepCopy()
	other.Annotations[contract.AnnProvisionOnNode] = "node-02"
	for _, row := range []struct {
		name   string
		pv     *corev1.PersistentVolume
		before watch.EventType
		after  watch.EventType // none: it is dropped
	}{
		{"local", local, watch.Added, watch.Added}, {"older", older, watch.Modified, watch.Modified}, {"older, gone", older, watch.Deleted, watch.Deleted},
		{"another node's", other, watch.Added, ""}, {"no longer local", other, watch.Modified, watch.Deleted}, {"another node's, gone", other, watch.Deleted, ""},
		{"a bookmark", &corev1.PersistentVolume{}, watch.Bookmark, watch.Bookmark},
	} {
		e, keep := c.filterWatch(watch.Event{Type: row.before, Object: row.pv})
		if keep != (row.after != "") || keep && e.Type != row.after {
			t.Errorf("%s: %s, kept %v; want %q", row.name, e.Type, keep, row.after)
		}
	}
}
