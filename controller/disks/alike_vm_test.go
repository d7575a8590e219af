//go:build vm

package disks

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Two machines, a node each, have one disk each. The disks have the same size, the same serial
// number and the same path, and are not the same disk.

// alone runs the agent of the machine's node, and returns its PV once its disk is offered.
func alone(t *testing.T, node string, pvs ...corev1.PersistentVolume) (b *bench, own corev1.PersistentVolume) {
	t.Helper()
	linkSlots(t)
	b = vmNode(t, node, pvs)
	b.start()
	t.Cleanup(b.stop)
	b.settled()
	return b, b.ownPV()
}

// ownPV returns the PV of the node. Only one may have it.
func (b *bench) ownPV() (own corev1.PersistentVolume) {
	b.Helper()
	all := b.on("alike")
	for _, pv := range all {
		if pv.Labels[LabelNode] == b.node {
			if own.Name != "" {
				b.Fatalf("node %s has two PVs of its disk: %s and %s", b.node, own.Name, pv.Name)
			}
			own = pv
		}
	}
	if own.Name == "" {
		b.Fatalf("node %s has no PV of its disk, of %d: %+v", b.node, len(all), b.controller.Reports())
	}
	return own
}

// used gives the disk to a tenant, who writes.
func (b *bench) used(pv corev1.PersistentVolume) {
	b.Helper()
	b.claimed(&pv, corev1.VolumeBound)
	writeTo(b.T, pv.Spec.Local.Path, tenant(pv), dataAt)
}

// The first node offers its disk. No Lease is taken, because it would be that of the other disk.
func TestVMAlikeFirstNode(t *testing.T) {
	b, own := alone(t, "first")
	b.used(own)
	leases, err := b.client.CoordinationV1().Leases("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != 0 {
		t.Errorf("Leases %+v (%v), want none", leases, err)
	}
	b.save()
}

// The second node offers its disk, too.
func TestVMAlikeSecondNode(t *testing.T) {
	b, own := alone(t, "second", saved(t)...)
	b.used(own)
	b.save()
}

// The first node boots again. The PV of the second node is Released: it is not about this disk.
// Then its own PV is Released: the disk is wiped and offered again, and the other PV stays.
func TestVMAlikeFirstNodeAgain(t *testing.T) {
	pvs := saved(t)
	var theirs corev1.PersistentVolume
	for i := range pvs {
		if pvs[i].Labels[LabelNode] == "second" {
			pvs[i].Status.Phase = corev1.VolumeReleased
			theirs = pvs[i]
		}
	}
	b, own := alone(t, "first", pvs...)
	b.report(own.Spec.Local.Path, Bound)
	if own.Spec.Local.Path != theirs.Spec.Local.Path || own.Annotations[AnnDisk] != theirs.Annotations[AnnDisk] {
		t.Errorf("the PVs differ: %+v, %+v", own, theirs)
	}
	if !holds(own.Spec.Local.Path, own) {
		t.Error("the data of the tenant is gone")
	}
	b.phase(&own, corev1.VolumeReleased)
	for end := time.Now().Add(patience); b.report(own.Spec.Local.Path, Available).PV == "" || b.ownPV().UID == own.UID; {
		if time.Now().After(end) {
			t.Fatalf("the disk is not offered again: %+v", b.controller.Reports())
		}
		time.Sleep(100 * time.Millisecond)
	}
	if holds(own.Spec.Local.Path, own) {
		t.Error("the disk is offered again, and was not wiped")
	}
	if now := b.named(theirs.Name); now.UID != theirs.UID || now.Status.Phase != corev1.VolumeReleased {
		t.Errorf("the PV of the other node was replaced: %+v", now)
	}
}
