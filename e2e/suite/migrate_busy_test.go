package suite

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Claims of both kinds come and go on the node while its volumes are migrated: none waits for the
// other.
func TestMigrateBusy(t *testing.T) {
	t.Parallel()
	s, a := migrating(t)
	class := s.CSIClass("busy", func(c *storagev1.StorageClass) { c.Parameters = nil })
	volumes := make([]*hosted, 8)
	for i := range volumes {
		volumes[i] = newHosted(s, a)
	}
	a.Stop()
	a.RestartAs(bothModes("run"))
	create := map[string]func() *corev1.PersistentVolumeClaim{
		"hostPath": func() *corev1.PersistentVolumeClaim { return s.Create(harness.Claim{Node: a.Node.Name}) },
		"CSI": func() *corev1.PersistentVolumeClaim {
			return s.Create(harness.Claim{Class: class, Selected: a.Node.Name})
		},
	}
	rounds := 0
	for over := false; !over; rounds++ {
		for kind, create := range create {
			claim := create()
			pv := s.Bound(claim)
			s.Delete(claim)
			// It may have been migrated before it went.
			s.Eventually(kind+" PV gone", func() error { return s.IsGone(pv.Name) })
		}
		over = true
		for _, h := range volumes {
			over = over && h.isCSI() == nil
		}
		if rounds > 20 {
			t.Fatalf("not migrated after %d rounds: %v", rounds, volumes[len(volumes)-1].isCSI())
		}
	}
	for _, h := range volumes {
		h.wantSame()
		h.Eventually("events", func() error { return h.said(reasonMigrating, reasonMigrated) })
	}
	t.Logf("%d claims of each kind came and went meanwhile", rounds)
}

// The API server goes in the middle and comes back: what was begun is finished. This test has a
// control plane of its own.
func TestMigrateAPIServerAway(t *testing.T) {
	t.Parallel()
	own := ownPlane(t)
	s := own.Scene(t)
	node := s.Node("01")
	s.KnowsDriver(node)
	a := s.Agent(node, bothModes("off"))
	volumes := make([]*hosted, 6)
	for i := range volumes {
		volumes[i] = newHosted(s, a)
	}
	a.Stop()
	a.RestartAs(bothModes("run"))
	s.Eventually("it has begun", func() error {
		for _, v := range a.Inspect().Volumes {
			if v.Migration != nil {
				return nil
			}
		}
		return fmt.Errorf("no journal in %+v", a.Inspect().Volumes)
	})
	if err := own.Plane.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	stays(s, a)
	for _, h := range volumes {
		h.wantSame()
	}
	startAPIServer(s)
	for _, h := range volumes {
		s.Eventually("migrated", h.isCSI)
		h.wantSame()
	}
}
