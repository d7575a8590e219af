package pvs

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
)

// recovered has the volume's claim and PV made again in another cluster, and bound: both have other
// UIDs, and the PV has policy Retain until then.
func recovered(l *life) (claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	l.t.Helper()
	l.bound()
	l.see()
	claim, pv = l.claim.DeepCopy(), l.pv.DeepCopy()
	l.in("new")
	l.claim = classtest.Claim(testUID, *claim.Spec.StorageClassName, pv.Name)
	l.claim.UID = nextUID
	l.pv.UID, l.pv.Spec.ClaimRef.UID, l.pv.CreationTimestamp = "recovered", nextUID, metav1.NewTime(time.Now().Add(time.Hour))
	l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	l.see()
	return claim, pv
}

// A volume that was recovered is the new cluster's, and its policy is in force once it is back.
func TestRecoveredVolume(t *testing.T) {
	for _, className := range []string{"wait", "csi"} {
		l := newLife(t, className)
		recovered(l)
		r, _ := l.pool.Cached(l.name)
		if r.Owner.UID != nextUID || r.PVUID != "recovered" || r.Cluster != "new" || r.ReclaimPolicy != "Retain" {
			t.Errorf("%s: record %+v", className, r)
		}
		l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		l.see()
		l.released()
		if deleted, err := l.deletes(); !deleted {
			t.Errorf("%s: it is not deleted with its claim: %v", className, err)
		}
	}
}

// If the old cluster returns, a claim that is Bound there takes the volume back, and a Released PV of
// it deletes nothing.
func TestOldClusterReturns(t *testing.T) {
	for _, className := range []string{"wait", "csi"} {
		l := newLife(t, className)
		l.claim, l.pv = recovered(l)
		l.in("c")
		l.see()
		if r, _ := l.pool.Cached(l.name); r.Owner.UID != testUID || r.PVUID != string(l.pv.UID) || r.Cluster != "c" {
			t.Errorf("%s: bound there: record %+v", className, r)
		}
		l.released()
		if deleted, err := l.deletes(); !deleted {
			t.Errorf("%s: taken back, and not deleted with its claim: %v", className, err)
		}

		l = newLife(t, className)
		_, l.pv = recovered(l)
		l.in("c")
		l.released()
		l.see()
		if deleted, err := l.deletes(); deleted || err == nil {
			t.Errorf("%s: a Released PV of the old cluster deleted the volume", className)
		}
		if r, _ := l.pool.Cached(l.name); r.Owner.UID != nextUID || r.Cluster != "new" {
			t.Errorf("%s: Released there: record %+v", className, r)
		}
	}
}
