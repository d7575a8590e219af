package nodes

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// csiStays checks that the pod's volume is where it was, and written to, after the agent has made
// and deleted another one.
func csiStays(s *harness.Scene, volume string) {
	s.Helper()
	s.Pass(harness.Claim{Class: harness.ClassCSI, Selected: one.Name})
	s.Once("PV and directory stay", func() error {
		if s.IsGone(volume) == nil {
			return errors.New("the PV is gone")
		}
		return harness.Exists(csiPath(one, volume))
	})
	csiWrites(s, one, volume)
}

// A claim that is deleted under a pod goes when the pod has ended, and the volume with it.
func csiClaimDeleted(t *testing.T, s *harness.Scene) {
	claim, p, volume := csiWriter(s, one)
	s.Delete(claim)
	csiStays(s, volume)
	if now := s.Read(claim); now.DeletionTimestamp == nil || s.PV(volume).Status.Phase != corev1.VolumeBound {
		t.Errorf("the claim is deleted at %v, the PV %s; want one that waits and one that is Bound", now.DeletionTimestamp, s.PV(volume).Status.Phase)
	}
	end(s, p)
	s.Gone(volume)
	csiGone(s, volume)
}

// A PV that is deleted under a pod and its claim waits for both.
func csiPVDeleted(_ *testing.T, s *harness.Scene) {
	claim, p, volume := csiWriter(s, one)
	_, err := kubectl("", "delete", "pv", volume, "--wait=false")
	must(s, "delete PV", err)
	csiStays(s, volume)
	end(s, p)
	if err := harness.Exists(csiPath(one, volume, "clock")); err != nil {
		s.Errorf("the claim is there, its data is not: %v", err)
	}
	s.Delete(claim)
	s.Gone(volume)
	csiGone(s, volume)
}

func csiInUse(_ *testing.T, s *harness.Scene) {
	claim, p, volume := csiWriter(s, one)
	csiTakeAway(s, claim, p, volume)
}

// csiTakeAway takes the claim away from under its pod in spite of all: the volume is mounted still,
// so it is not deleted until the pod has ended.
func csiTakeAway(s *harness.Scene, claim *corev1.PersistentVolumeClaim, p *corev1.Pod, volume string) {
	s.Helper()
	pv := s.PV(volume)
	s.Delete(claim)
	_, err := kubectl("", "-n", s.Namespace, "patch", "pvc", claim.Name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	must(s, "take the claim's protection", err)
	s.Released(volume)
	s.Eventually("word to the PV", func() error {
		return said(s, "involvedObject.uid", string(pv.UID), "VolumeFailedDelete", "in use", pv.CreationTimestamp.Time)
	})
	csiStays(s, volume)
	end(s, p)
	begin := time.Now()
	s.Gone(volume)
	s.Logf("gone %s after the pod", time.Since(begin).Round(100*time.Millisecond))
	csiGone(s, volume)
}
