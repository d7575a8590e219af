package pvs

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
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

// What a copy lacks is an event on its claim, also if the agent that made the copy was killed before. The
// record has it until the API server has the event.
func TestWhatACopyLacksIsReported(t *testing.T) {
	d := newDescribed(t)
	name := d.pv.Spec.CSI.VolumeHandle
	made, err := d.pool.Get(name)
	must(t, err)
	must(t, d.pool.RollBack(name))
	original, err := d.pool.Create(volume.Spec{Name: "original", Bytes: 1 << 20})
	must(t, err)
	if err := unix.Mknod(filepath.Join(original.Path, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err == unix.EPERM {
		t.Skip("only root may make the device node that a copy lacks")
	}
	source := record.SourceOf(d.pool.ID(), original.Record)
	_, err = d.pool.Clone(volume.CloneSpec{CopyBytes: true, Spec: volume.Spec{Name: name, Bytes: made.Bytes, PV: made.PV, Cluster: made.Cluster, Source: &source}})
	must(t, err)
	refused := true
	lacks := func() string {
		v, err := d.pool.Get(name)
		must(t, err)
		return v.LeftOut
	}
	client := fake.NewClientset()
	client.PrependReactor("create", "events", func(kubetesting.Action) (bool, runtime.Object, error) {
		return refused, nil, errors.New("refused")
	})
	d.Events = events.New(client, "node-01")
	t.Cleanup(d.Events.Close)
	setObjects(t, d.PVs, d.pv, d.claim)
	must(t, d.informer.GetStore().Add(d.pv))
	if err := d.PVs.sync(t.Context(), d.pv.Name); err == nil || lacks() == "" {
		t.Errorf("no event, and it counts as reported: %v, %q", err, lacks())
	}
	refused = false
	for range 2 {
		must(t, d.PVs.sync(t.Context(), d.pv.Name))
	}
	all, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(all.Items) != 1 || all.Items[0].Reason != events.CopyIncomplete || all.Items[0].InvolvedObject.UID != d.claim.UID ||
		!strings.Contains(all.Items[0].Message, "original lacks what is not copied: left out 1: null") {
		t.Errorf("events %+v", all.Items)
	}
	if lacks() != "" {
		t.Errorf("it is not noted as reported: %q", lacks())
	}
}
