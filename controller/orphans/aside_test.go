package orphans

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientrecord "k8s.io/client-go/tools/record"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A volume whose deletion was not finished, and whose PV is gone, is reported and stays in the trash, whatever --orphans says. While it has
// a PV, that decides.
func TestUnfinishedDeletionIsReported(t *testing.T) {
	for _, hasPV := range []bool{false, true} {
		says := answers{}
		if hasPV {
			says["persistentvolumes/pvc-1"] = &corev1.PersistentVolume{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
		}
		o, v := orphaned(t, says)
		pool := o.Pools.All()[0]
		if _, err := pool.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		away := pool.Path() + ".away"
		entry := filepath.Join(pool.Path(), ".hostpath-provisioner/trash", v.Trash)
		for _, move := range [][2]string{{v.Path, entry}, {pool.Path(), away}, {away, pool.Path()}} {
			if err := os.Rename(move[0], move[1]); err != nil {
				t.Fatal(err)
			}
			_ = pool.Ready() // notices that it is away, and back
		}
		o.check(t.Context())
		if _, err := os.Stat(entry); err != nil {
			t.Error(err)
		}
		var said string
		select {
		case said = <-o.Events.EventRecorder.(*clientrecord.FakeRecorder).Events:
		default:
		}
		if strings.Contains(said, "1 volume whose deletion was not finished: pvc-1") == hasPV {
			t.Errorf("has a PV: %v; event %q", hasPV, said)
		}
		if f := o.last[pool]; (len(f.aside) == 1) == hasPV {
			t.Errorf("has a PV: %v; found %+v", hasPV, f)
		}
	}
}
