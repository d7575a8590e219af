package pvs

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A copy is local where its source is bound to a PV, and where it has begun.
func TestCopiesHere(t *testing.T) {
	c := newPVs(t)
	claim := classtest.Claim("copy", "csi", "")
	claim.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "claim-" + testUID}
	pv := validPV(c, "csi")
	for _, row := range []struct {
		what string
		edit func()
		want bool
	}{
		{"no PV", func() {}, false},
		{"a PV that is not bound", func() { must(t, c.informer.GetStore().Add(pv)) }, false},
		{"bound", func() {
			pv = pv.DeepCopy()
			pv.Status.Phase = corev1.VolumeBound
			must(t, c.informer.GetStore().Update(pv))
		}, true},
		{"released", func() {
			pv = pv.DeepCopy()
			pv.Status.Phase = corev1.VolumeReleased
			must(t, c.informer.GetStore().Update(pv))
		}, false},
	} {
		row.edit()
		if got := c.CopiesHere(claim); got != row.want {
			t.Errorf("%s: %v", row.what, got)
		}
	}
	// The source may be gone once the copy has begun.
	pool := c.Pools.Named("legacy")
	v, err := pool.Create(volume.Spec{Name: "source", Bytes: 1, Owner: record.Owner{Namespace: "default", Name: "s", UID: "s"}})
	must(t, err)
	source := record.SourceOf(pool.ID(), v.Record)
	spec := volume.CloneSpec{CopyBytes: true, Spec: volume.Spec{Name: contract.PVName(claim), Bytes: 1, Source: &source,
		Owner: record.Owner{Namespace: "default", Name: claim.Name, UID: string(claim.UID)}}}
	_, err = pool.Clone(spec)
	must(t, err)
	if !c.CopiesHere(claim) {
		t.Error("a copy that is made is another node's once its source is released")
	}
	claim.UID = "other"
	if c.CopiesHere(claim) {
		t.Error("the copy counts for another claim")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Only a PV that is bound is that of a source.
func TestClaimKeys(t *testing.T) {
	pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "n", Name: "c"}}}
	for phase, want := range map[corev1.PersistentVolumePhase][]string{corev1.VolumeBound: {"n/c"}, corev1.VolumeReleased: nil, "": nil} {
		pv.Status.Phase = phase
		if got, err := claimKeys(pv); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v", phase, got, err)
		}
	}
}
