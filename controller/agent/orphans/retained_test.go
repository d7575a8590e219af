package orphans

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A PV was set to Retain and went before the migration that had begun wrote anything to it. That is
// cancelled later, and the volume stays.
func TestRetainOfAPVThatWentBeforeItsMigration(t *testing.T) {
	o, v := orphaned(t, thisCluster())
	pool := o.Pools.All()[0]
	if _, err := pool.BeginMigration(v.Name, record.Migration{To: "csi", Old: []byte(`{}`), New: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	o.PVs = naming{o.PVs, place{pool, v.Name}}
	o.pvDeleted(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: v.PV, DeletionTimestamp: new(metav1.Now())},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.Path}}}})
	o.check(t.Context())
	if err := pool.AdvanceMigration(v.Name, record.CancelMigration()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o.check(t.Context())
		if there, err := pool.HasDirectory(v.Name); !there || err != nil {
			t.Fatalf("the volume is there: %v, %v", there, err)
		}
	}
	if r, _ := pool.Cached(v.Name); r.ReclaimPolicy != "Retain" {
		t.Errorf("recorded %+v", r)
	}
}
