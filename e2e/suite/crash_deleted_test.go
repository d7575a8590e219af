package suite

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The agent is killed while it makes a volume, and the claim is deleted before it is started again.
// Nobody will ask for the volume any more, so it goes: at the start, or where its directory was in
// place already, a minute later.
func TestCrashThenClaimDeleted(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	var begun []*crash
	var orphan *crash
	for _, c := range untilBound(s) {
		step := c.a.Step()
		s.Delete(c.claim)
		if strings.HasPrefix(step, "open.") || strings.HasPrefix(step, "pool.") {
			continue // nothing of the volume is there yet
		}
		if step == "create.sync" {
			// Somebody found the directory and uses it.
			s.Write(filepath.Join(c.a.Pool, harness.PVName(c.claim)), "data", []byte("precious"))
			orphan = c
		} else {
			begun = append(begun, c)
		}
		c.a.Restart()
	}
	if len(begun) < 6 || orphan == nil {
		t.Fatalf("%d kills while a volume was made, orphan: %v; want more", len(begun), orphan != nil)
	}
	for _, c := range begun {
		c.wantNone()
	}
	wantOrphan(orphan)
}

// untilBound returns one crash for each step until the claim is bound, on a node and a pool each. A
// few agents run at once.
func untilBound(s *harness.Scene) (killed []*crash) {
	s.Helper()
	life := new(harness.Life)
	recorded := func(c *crash) bool {
		return c.a.Stage("claim bound and recorded", "record.sync", func() error { return c.IsBound(c.claim) })
	}
	counted := newCrash(s, s.Node("00"), life, 0, false)
	recorded(counted)
	last := 1 + slices.Index(counted.a.Steps(), "create.sync") // the agent creates the PV after it
	counted.a.Kill()
	const wave = 6
	for first := 1; first <= last; first += wave {
		var all []*crash
		for n := first; n < first+wave && n <= last; n++ {
			node := s.Node(string([]byte{'a' + byte(n/10), '0' + byte(n%10)}))
			all = append(all, newCrash(s, node, life, n, false))
		}
		for _, c := range all {
			recorded(c)
		}
		killed = append(killed, all...)
	}
	return killed
}

// wantOrphan checks that an unfinished volume that holds data is kept, for a person to judge.
func wantOrphan(c *crash) {
	c.Helper()
	name := harness.PVName(c.claim)
	c.Eventually("data noticed", func() error {
		if !strings.Contains(c.a.Log(), "it is not empty") {
			return harness.Missing(c.a.Pool)
		}
		return nil
	})
	// The agent logs that after it tried to remove the directory.
	c.Once("data kept", func() error { return harness.Exists(filepath.Join(c.a.Pool, name, "data")) })
	if v := c.a.Volume(name); v.State != "ready" {
		c.Errorf("kill %d: the orphan is %s, want ready", c.n, v.State)
	}
}
