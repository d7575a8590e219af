package migrate

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume/record"
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
		"owner": {func(pv *corev1.PersistentVolume) {
			pv.OwnerReferences = []metav1.OwnerReference{{Kind: "Backup", Name: "x", UID: "1"}}
		}, true},
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
	pv.Annotations[contract.AnnPolicy] = string(pv.Spec.PersistentVolumeReclaimPolicy)
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
}

func TestIsNew(t *testing.T) {
	pool := openPool(t)
	_, next, _, _ := served(settings.MigrateRun).verdict(ordinary(pool))
	j := &job{old: older(), new: next}
	made := next.DeepCopy()
	made.UID = "new-uid"
	if !j.isNew(made) || j.isNew(older()) {
		t.Error("the new PV is not told from the old one")
	}
	for name, spoil := range map[string]func(*corev1.PersistentVolume){
		"without the old UID": func(pv *corev1.PersistentVolume) { delete(pv.Annotations, contract.AnnReplaces) },
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

// A journal that cannot be read stops its volume, with words, and no other: neither another
// version's nor one that a person edited.
func TestUnreadableJournal(t *testing.T) {
	encode := func(edit func(*corev1.PersistentVolume)) json.RawMessage {
		pv := older()
		edit(pv)
		data, err := encodePV(pv)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	plain := encode(func(*corev1.PersistentVolume) {})
	for name, journal := range map[string]record.Migration{
		"no PV":         {To: toCSI, Old: plain, New: json.RawMessage(`{"metadata":{}}`)},
		"not a PV":      {To: toCSI, Old: json.RawMessage(`[]`), New: plain},
		"nothing":       {To: toCSI},
		"another PV":    {To: toCSI, Old: plain, New: encode(func(pv *corev1.PersistentVolume) { pv.Name = "pvc-other" })},
		"no UID":        {To: toCSI, Old: encode(func(pv *corev1.PersistentVolume) { pv.UID = "" }), New: plain},
		"another place": {To: "tape", Old: plain, New: plain},
	} {
		for _, mode := range []settings.MigrateMode{settings.MigrateOff, settings.MigrateRun} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, pvs := many(t, 1)
					if _, err := pvs.pool.BeginMigration(pvName, journal); err != nil {
						t.Fatal(err)
					}
					m.Mode = mode
					said := &warnings{Events: m.Events}
					m.Events = said
					all := m.check(t.Context())
					if f := all[0]; f.PV != pvName || f.Verdict != Stopped || !strings.Contains(f.Reason, "records/"+pvName) {
						t.Errorf("%s: %s, %s", f.PV, f.Verdict, f.Reason)
					}
					m.work(t.Context(), all)
					if !strings.Contains(said.claim, "records/"+pvName) || !strings.Contains(said.pv, "records/"+pvName) {
						t.Errorf("event on the claim %q, on the PV %q", said.claim, said.pv)
					}
					if pv := readPV(t, m.Client); pv.UID != older().UID {
						t.Errorf("the PV is %s", pv.UID)
					}
					v, err := pvs.pool.Get("pvc-v0")
					if begun := v.Migration != nil; err != nil || begun != (mode == settings.MigrateRun) {
						t.Errorf("the other volume: %+v, %v", v.Migration, err)
					}
				})
			})
		}
	}
}
