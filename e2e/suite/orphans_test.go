package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// orphans returns nil where the agent counts so many of the kind.
func orphans(a *harness.Agent, kind string, want int) error {
	return a.MetricIs(float64(want), "kubevirt_hpp_orphans", fmt.Sprintf("kind=%q", kind))
}

// orphaned stops the agent and takes claim and PV away, as a cluster restored in a hurry does.
func orphaned(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	a.Stop()
	s.Delete(claim)
	s.ClaimGone(claim)
	s.ForcePVAway(harness.PVName(claim))
}

// filled is a bound claim with data in its volume.
func filled(s *harness.Scene, a *harness.Agent, c harness.Claim) *corev1.PersistentVolumeClaim {
	s.Helper()
	c.Node = a.Node.Name
	claim := s.Create(c)
	path := s.Bound(claim).Spec.HostPath.Path
	s.Write(path, "data", []byte("precious"))
	s.Eventually("record bound", func() error {
		if v := a.Volume(harness.PVName(claim)); v.State != "bound" {
			return fmt.Errorf("it is %s", v.State)
		}
		return nil
	})
	return claim
}

// intact returns nil where the claim's data is in place.
func intact(a *harness.Agent, claim *corev1.PersistentVolumeClaim) error {
	data, err := os.ReadFile(filepath.Join(a.Pool, harness.PVName(claim), "data"))
	if string(data) != "precious" {
		return fmt.Errorf("data of claim %s: %q, %w", claim.Name, data, err)
	}
	return nil
}

// anotherCheck waits until the agent has checked all volumes again, and removed what it may: it
// exports at the end of a check how many orphans are left. There were so many before. The one that
// anotherCheck adds is kept, because its claim exists.
func anotherCheck(s *harness.Scene, a *harness.Agent, before int) {
	s.Helper()
	s.ForcePVAway(harness.PVName(filled(s, a, harness.Claim{})))
	s.Eventually("one orphan more", func() error { return orphans(a, "record", before+1) })
}

// edit changes the record of a claim's volume, while no agent runs.
func edit(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim, old, with string) {
	s.Helper()
	path := recordPath(a.Pool, harness.PVName(claim))
	data, err := os.ReadFile(path)
	text := string(data)
	if err == nil && !strings.Contains(text, old) {
		err = fmt.Errorf("no %q in %s", old, text)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(text, old, with, 1)), 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// An agent that may remove orphans at once removes the one that nobody can want any more, and no
// other. What each of the others has is all that stands between it and the trash.
func TestOrphansDeleted(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{})
	retain := corev1.PersistentVolumeReclaimRetain
	retained := s.Class("retain", func(c *storagev1.StorageClass) { c.ReclaimPolicy = &retain })
	going, bound := filled(s, a, harness.Claim{}), filled(s, a, harness.Claim{})
	kept := map[string]*corev1.PersistentVolumeClaim{}
	for _, what := range []string{"claim lost", "another cluster", "claim restored", "named by a PV", "adopted", "never bound"} {
		kept[what] = filled(s, a, harness.Claim{})
	}
	kept["retained"] = filled(s, a, harness.Claim{Class: retained})
	lose := func(claim *corev1.PersistentVolumeClaim, too bool) {
		s.ForcePVAway(harness.PVName(claim)) // first, or the agent deletes both
		if too {
			s.Delete(claim)
			s.ClaimGone(claim)
		}
	}
	for what, claim := range kept {
		lose(claim, what != "claim lost")
	}
	lose(going, true)
	s.Eventually("noted", func() error { return orphans(a, "record", len(kept)+1) })
	kept["gone while no agent ran"] = filled(s, a, harness.Claim{})
	a.Stop()
	lose(kept["gone while no agent ran"], true)
	edit(s, a, kept["another cluster"], clusterID(s), string(uuid.NewUUID()))
	edit(s, a, kept["adopted"], `"created"`, `"adopted": true, "created"`)
	edit(s, a, kept["never bound"], `"state": "bound"`, `"state": "ready"`)
	edit(s, a, kept["never bound"], `"created": "20`, `"created": "19`)
	s.Create(harness.Claim{Name: kept["claim restored"].Name, Edit: func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = harness.PVName(kept["claim restored"])
	}})
	s.LocalPV("keeper", filepath.Join(a.Pool, harness.PVName(kept["named by a PV"])))

	a.RestartAs(harness.Options{Flags: []string{"--orphans=delete", "--orphan-grace=0s", "--v=1"}})
	a.AwaitReady()
	s.Eventually("orphan removed", func() error {
		return harness.Missing(filepath.Join(a.Pool, harness.PVName(going)))
	})
	s.Eventually("the others reported", func() error { return orphans(a, "record", len(kept)) })
	anotherCheck(s, a, len(kept))
	s.Once("the others kept", func() error {
		for what, claim := range kept {
			if err := intact(a, claim); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		return intact(a, bound)
	})
	for what, claim := range kept {
		if v := a.Volume(harness.PVName(claim)); v.Orphan.Why == "" {
			t.Errorf("%s: no note on record %+v", what, v)
		}
	}
	if v := a.Volume(harness.PVName(bound)); v.Orphan.Why != "" {
		t.Errorf("a bound claim's volume is noted: %+v", v)
	}
	for _, words := range []string{"OrphansRemoved", harness.ReasonOrphans} {
		s.Eventually("event on the node", func() error { return nodeEvent(s, a.Node, words) })
	}
	if n := strings.Count(a.Log(), "Removed an orphan"); n != 1 {
		t.Errorf("%d orphans removed, want 1", n)
	}
}

// clusterID is what records call the cluster.
func clusterID(s *harness.Scene) string {
	s.Helper()
	ns, err := env.Client.CoreV1().Namespaces().Get(s.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return string(ns.UID)
}

// An agent tells of orphans and touches none unless it is told to. The time that one has is counted
// from when it was noted first, by whichever agent; and what has a PV again is no orphan.
func TestOrphansReported(t *testing.T) {
	t.Parallel()
	const grace = 45 * time.Second
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{})
	unseen, going, back := filled(s, a, harness.Claim{}), filled(s, a, harness.Claim{}), filled(s, a, harness.Claim{})
	pv := s.PV(harness.PVName(back))
	orphaned(s, a, unseen)
	a.Restart()
	a.AwaitReady()
	s.Eventually("reported at start", func() error { return orphans(a, "record", 1) })
	s.Eventually("event on the node", func() error { return nodeEvent(s, a.Node, harness.ReasonOrphans) })

	s.ForcePVAway(harness.PVName(going))
	s.ForcePVAway(pv.Name)
	s.Eventually("reported soon", func() error { return orphans(a, "record", 3) })
	if why := a.Volume(pv.Name).Orphan.Why; !strings.Contains(why, "exists") {
		t.Errorf("a lost claim's volume is an orphan because %q", why)
	}
	s.Delete(going)
	s.ClaimGone(going)
	pv.ResourceVersion, pv.UID = "", ""
	save(s, pv)
	s.Eventually("note taken back", func() error {
		if why := a.Volume(pv.Name).Orphan.Why; why != "" {
			return fmt.Errorf("still noted: %s", why)
		}
		return nil
	})
	s.Eventually("noted without its claim", func() error {
		if why := a.Volume(harness.PVName(going)).Orphan.Why; !strings.HasSuffix(why, "are gone") {
			return errors.New(why)
		}
		return nil
	})
	since := a.Volume(harness.PVName(going)).Orphan.Since

	a.Stop()
	a.RestartAs(harness.Options{Flags: []string{"--orphans=delete", "--orphan-grace=" + grace.String()}})
	a.AwaitReady()
	s.Eventually("reported again", func() error { return orphans(a, "record", 2) })
	if v := a.Volume(harness.PVName(going)); !v.Orphan.Since.Equal(since) {
		t.Errorf("an orphan since %v, want since %v, before the restart", v.Orphan.Since, since)
	}
	var gone time.Time
	s.Eventually("orphan removed", func() error {
		gone = time.Now()
		return harness.Missing(filepath.Join(a.Pool, harness.PVName(going)))
	})
	if took := gone.Sub(since); took < grace {
		t.Errorf("removed %v after it was noted, want %v at least", took, grace)
	}
	s.Eventually("the one whose PV nobody saw go is left", func() error { return orphans(a, "record", 1) })
	for _, claim := range []*corev1.PersistentVolumeClaim{unseen, back} {
		if err := intact(a, claim); err != nil {
			t.Error(err)
		}
	}
}

// A PV without its directory is told of; so are directories that provisioners left, and nobody
// else's.
func TestOrphansOfOtherKinds(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{})
	missing, unrecorded, bound := filled(s, a, harness.Claim{}), filled(s, a, harness.Claim{}), filled(s, a, harness.Claim{})
	a.Stop()
	for _, path := range []string{
		filepath.Join(a.Pool, harness.PVName(missing)), filepath.Join(a.Pool, harness.PVName(unrecorded)),
		recordPath(a.Pool, harness.PVName(unrecorded)),
	} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	left := []string{"pvc-" + string(uuid.NewUUID()), "data-pvc-" + string(uuid.NewUUID()), "csi-" + strings.Repeat("ab", 32)}
	for _, name := range append(left, "backup") {
		s.Write(filepath.Join(a.Pool, name), "data", []byte("precious"))
	}
	a.RestartAs(harness.Options{Flags: []string{"--orphans=delete", "--orphan-grace=0s"}})
	a.AwaitReady()
	for kind, want := range map[string]int{"pv": 2, "directory": len(left), "record": 0} {
		s.Eventually(kind, func() error { return orphans(a, kind, want) })
	}
	s.AwaitWarning(a, s.PV(harness.PVName(missing)).UID, harness.ReasonMissing, a.Node.Name, a.Pool)
	s.AwaitWarning(a, s.PV(harness.PVName(unrecorded)).UID, harness.ReasonRefused, a.Node.Name)
	s.Eventually("event on the node", func() error { return nodeEvent(s, a.Node, harness.ReasonOrphans) })
	anotherCheck(s, a, 0)
	s.Once("nothing touched", func() error {
		for _, name := range append(left, "backup") {
			if err := harness.Exists(filepath.Join(a.Pool, name, "data")); err != nil {
				return err
			}
		}
		return intact(a, bound)
	})
	if got := a.Inspect().Unrecorded; len(got) != len(left)+1 {
		t.Errorf("without a record: %+v, want %v and backup", got, left)
	}
}
