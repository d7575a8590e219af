package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The driver with the provisioner sidecar, the same without one, and back: each deletes what the
// other made, and the capacity objects of the other do not stay.
func TestSwap(t *testing.T) {
	// Not at the same time as others: the sidecar deletes whatever PV of the driver names no node.
	s := env.Scene(t)
	node := s.Node("01")
	a := s.Agent(node, plain(node))
	stop := a.Sidecar()
	// The pod's way: the sidecar has told the scheduler what there is.
	bySidecar := s.Create(harness.Claim{Class: harness.ClassCSI})
	pod := s.Pod(bySidecar.Name, node.Hostname)
	s.Bound(bySidecar)
	s.DeletePod(pod)
	copiedBySidecar(s, a, node)
	mineToo := csiBound(s, a)
	if pv := s.PV(harness.PVName(bySidecar)); len(pv.Labels) > 0 {
		t.Fatalf("labels %v: this is no sidecar's PV", pv.Labels)
	}

	stop()
	a.Stop()
	a.RestartAs(local(node))
	a.AwaitReady()
	for _, claim := range []*corev1.PersistentVolumeClaim{bySidecar, mineToo} {
		name := harness.PVName(claim)
		s.Eventually("taken over", func() error { return owned(s, a, name, name, claim, false) })
	}
	s.Eventually("one capacity object, ours", func() error {
		o, err := s.Capacity(harness.ClassCSI, node)
		if err == nil && o.Labels[harness.LabelNode] != node.Name {
			err = fmt.Errorf("labels %v", o.Labels)
		}
		return err
	})
	s.Delete(bySidecar)
	s.Gone(harness.PVName(bySidecar))
	byLoop := csiBound(s, a)
	wantTwo := func() error { return firstError(s.PathOf(a, mineToo), s.PathOf(a, byLoop)) }
	if err := wantTwo(); err != nil {
		t.Error(err)
	}
	s.Eventually("recorded", func() error { return owned(s, a, harness.PVName(byLoop), harness.PVName(byLoop), byLoop, false) })

	a.Stop()
	a.RestartAs(plain(node))
	a.AwaitReady()
	stop = a.Sidecar()
	defer stop()
	for _, claim := range []*corev1.PersistentVolumeClaim{mineToo, byLoop} {
		s.Delete(claim)
		s.Gone(harness.PVName(claim))
	}
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// copiedBySidecar has the sidecar copy a volume. The sidecar puts its finalizer on the original, and takes
// it off when that is deleted.
func copiedBySidecar(s *harness.Scene, a *harness.Agent, node harness.Node) {
	s.Helper()
	class := s.CSIClass("copies", func(c *storagev1.StorageClass) { c.Parameters["copy"] = "allowed" })
	made := func(edit func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		claim := s.Create(harness.Claim{Class: class, Edit: edit})
		pod := s.Pod(claim.Name, node.Hostname)
		s.Bound(claim)
		s.DeletePod(pod)
		return claim
	}
	original := made(nil)
	s.Write(filepath.Join(a.Pool, harness.PVName(original)), "file", []byte("content"))
	claim := made(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: original.Name}
	})
	if got, err := os.ReadFile(filepath.Join(a.Pool, harness.PVName(claim), "file")); string(got) != "content" {
		s.Errorf("the copy has %q, %v", got, err)
	}
	if f := s.Read(original).Finalizers; !slices.Contains(f, "provisioner.storage.kubernetes.io/cloning-protection") {
		s.Errorf("the original has the finalizers %q", f)
	}
	for _, c := range []*corev1.PersistentVolumeClaim{original, claim} {
		s.Delete(c)
		s.Gone(harness.PVName(c))
	}
}
