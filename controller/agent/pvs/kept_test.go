package pvs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A PV that came back with etcd, and whose volume was deleted since, gets an event with the command that
// brings the volume back; another object of its name gets none.
func TestDeletedVolumeOfPV(t *testing.T) {
	p := newPVs(t)
	pool := classtest.PoolsOf(t, func(c *volume.Config) { c.TrashRetention = time.Hour }).Named("legacy")
	owner := record.Owner{Namespace: "shop", Name: "data", UID: "1"}
	v, err := pool.Create(volume.Spec{Name: "pvc-1", Bytes: 1 << 20, PV: "pvc-1", Owner: owner})
	if err == nil {
		_, err = pool.Bind("pvc-1", volume.Binding{PV: "pvc-1", Owner: owner, UID: "pv", ReclaimPolicy: "Delete", Bound: true})
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(v.Path, "file"), []byte("data"), 0o600)
	}
	if err == nil {
		err = pool.Delete("pvc-1")
	}
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[types.UID]string{"pv": "kubectl hpp undelete node-01/" + v.Trash, "later": "", "": ""} {
		err := p.deletedOf(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: uid}}, pool, "pvc-1")
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("UID %q: %v, want %q", uid, err, want)
		}
	}
	if err := p.deletedOf(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "pv"}}, pool, "pvc-2"); err != nil {
		t.Errorf("another directory: %v", err)
	}
}
