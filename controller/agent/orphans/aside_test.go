package orphans

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	clientrecord "k8s.io/client-go/tools/record"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume whose deletion was not finished, and whose PV is gone, is an orphan: it is reported and
// stays in the trash, and --orphans=delete removes it if the PV went while an agent ran. While it has
// a PV that the agent serves, that decides.
func TestUnfinishedDeletionIsReported(t *testing.T) {
	for _, row := range []struct{ hasPV, noted bool }{{}, {noted: true}, {hasPV: true}} {
		hasPV := row.hasPV
		says := gone()
		if hasPV {
			says["persistentvolumes/pvc-1"] = &corev1.PersistentVolume{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
		}
		o, v := orphaned(t, says)
		o.Delete = false
		pool := o.Pools.All()[0]
		o.PVs = naming{o.PVs, place{pool, v.Name}}
		if row.noted {
			if _, err := pool.NoteOrphan(v.Name, "its PV is gone", 0); err != nil {
				t.Fatal(err)
			}
		}
		setAside(t, pool, v)
		entry := filepath.Join(pool.Path(), ".hostpath-provisioner/trash", v.Trash)
		o.check(t.Context())
		if _, err := os.Stat(entry); err != nil {
			t.Error(err)
		}
		var said string
		select {
		case said = <-o.Events.EventRecorder.(*clientrecord.FakeRecorder).Events:
		default:
		}
		if strings.Contains(said, "1 volume without a PV, which is kept: pvc-1") == hasPV {
			t.Errorf("has a PV: %v; event %q", hasPV, said)
		}
		if f := o.last[pool]; (len(f.volumes) == 1) == hasPV || !hasPV && !strings.Contains(f.volumes[0].Orphan.Why, ".hostpath-provisioner/trash/"+v.Trash) {
			t.Errorf("has a PV: %v; found %+v", hasPV, f)
		}
		o.Delete = true
		o.check(t.Context())
		if _, err := os.Stat(entry + ".json"); (err == nil) != row.noted {
			t.Errorf("%+v; removed: %v", row, err)
		}
	}
}

// A volume whose deletion was not finished comes back if its PV exists and is of a form that the agent
// does not serve any more: no one else would finish the deletion, or say what has become of the data.
func TestUnfinishedDeletionOfAFormerForm(t *testing.T) {
	says := gone()
	says["persistentvolumes/pvc-1"] = &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
	o, v := orphaned(t, says)
	client, recorder := fake.NewClientset(), o.Events.EventRecorder
	o.Events = events.New(client, "node-01")
	t.Cleanup(o.Events.Close)
	o.Events.EventRecorder = recorder
	pool := o.Pools.All()[0]
	setAside(t, pool, v)
	o.check(t.Context())
	if got, err := pool.Get(v.Name); err != nil || got.Missing {
		t.Errorf("%+v, %v", got, err)
	}
	said, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(said.Items) != 1 || !strings.Contains(said.Items[0].Message, "the directory is back in "+v.Path) {
		t.Errorf("events %+v, %v", said, err)
	}
}

// setAside leaves a volume as a deletion does that was begun and not finished.
func setAside(t *testing.T, pool *volume.Pool, v volume.Volume) {
	t.Helper()
	setAsideIn(t, pool, v, "trash")
}

// setAsideIn is setAside for a volume that goes to another directory than the trash.
func setAsideIn(t *testing.T, pool *volume.Pool, v volume.Volume, dir string) {
	t.Helper()
	if _, err := pool.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	away := pool.Path() + ".away"
	entry := filepath.Join(pool.Path(), ".hostpath-provisioner", dir, v.Trash)
	for _, move := range [][2]string{{v.Path, entry}, {pool.Path(), away}, {away, pool.Path()}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
		_ = pool.Ready() // notices that it is away, and back
	}
}
