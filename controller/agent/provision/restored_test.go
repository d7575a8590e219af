package provision

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The library deletes a PV that is there again after its deletion, with the same UID, because etcd was
// restored from a backup. Until the watch has had time to report the deletion it leaves the PV alone.
func TestDeletedPVThatIsRestored(t *testing.T) {
	c := examiner(t)
	pv := goodPV(c, "now")
	pv.UID, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy = "first", corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete
	pool, directory := c.PVs.Names(pv)
	owner := record.Owner{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name, UID: contract.ClaimUID(pv)}
	if _, err := pool.Create(volume.Spec{Name: directory, Bytes: 1 << 20, PV: pv.Name, Owner: owner, Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if !c.ShouldDelete(t.Context(), pv) {
			t.Fatal("a released PV should be deleted")
		}
		c.deletions.over(pv)
		if time.Sleep(time.Minute); c.ShouldDelete(t.Context(), pv) {
			t.Error("a PV that was just deleted should be deleted again")
		}
		if time.Sleep(behindFor); !c.ShouldDelete(t.Context(), pv) {
			t.Error("a PV that was restored should not be deleted")
		}
	})
}

// The library makes a PV again that it saved, and that is gone without a word of the watch, because etcd
// was restored from a backup.
func TestSavedPVThatIsGone(t *testing.T) {
	watched, err := newWatchedPVs(examiner(t).PVs.Informer())
	if err != nil {
		t.Fatal(err)
	}
	pv := &corev1.PersistentVolume{}
	pv.Name = "pvc-a"
	synctest.Test(t, func(t *testing.T) {
		store := watched.GetStore()
		there := func(store cache.Store) bool {
			_, ok, err := store.GetByKey(pv.Name)
			return ok && err == nil
		}
		if err := store.Add(pv); err != nil || !there(store) {
			t.Errorf("a PV that was just saved is not there: %v", err)
		}
		if time.Sleep(behindFor + time.Second); there(store) {
			t.Error("a PV that the watch has not had for minutes is there")
		}
	})
}
