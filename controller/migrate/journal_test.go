package migrate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

func TestEdited(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*corev1.PersistentVolume)
		want bool
	}{
		"nothing":       {func(*corev1.PersistentVolume) {}, false},
		"its own patch": {func(pv *corev1.PersistentVolume) { retained(pv) }, false},
		"finalizers":    {func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }, false},
		"claimRef's":    {func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.ResourceVersion = "9" }, false},
		"policy": {func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, true},
		"label":      {func(pv *corev1.PersistentVolume) { pv.Labels["x"] = "y" }, true},
		"annotation": {func(pv *corev1.PersistentVolume) { pv.Annotations["x"] = "y" }, true},
		"claim":      {func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "other" }, true},
		"path":       {func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = "/etc" }, true},
	} {
		pv := older()
		row.edit(pv)
		if got := edited(older(), pv); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// retained is a PV after the first write of a migration.
func retained(pv *corev1.PersistentVolume) {
	pv.Annotations[class.AnnPolicy] = string(pv.Spec.PersistentVolumeReclaimPolicy)
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
}

func TestIsNew(t *testing.T) {
	pool := openPool(t)
	_, next, _, _ := served(Run).verdict(ordinary(pool))
	j := &job{old: older(), new: next}
	made := next.DeepCopy()
	made.UID = "new-uid"
	if !j.isNew(made) || j.isNew(older()) {
		t.Error("the new PV is not told from the old one")
	}
	for name, spoil := range map[string]func(*corev1.PersistentVolume){
		"without the old UID": func(pv *corev1.PersistentVolume) { delete(pv.Annotations, class.AnnReplaces) },
		"other handle":        func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "other" },
		"other claim":         func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "other" },
	} {
		pv := made.DeepCopy()
		spoil(pv)
		if j.isNew(pv) {
			t.Errorf("%s: taken for the new PV", name)
		}
	}
	// One that waited for a claim may get it while it is replaced.
	j.new.Spec.ClaimRef.UID = ""
	if !j.isNew(made) {
		t.Error("the new PV that got its next claim is taken for a stranger's")
	}
}
