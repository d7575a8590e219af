package suite

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Wherever the agent is killed, the next start brings it to its end.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	const opening, lanes = 3, 3 // a pool that is there is opened with three changes
	var steps sync.Map
	t.Run("lanes", func(t *testing.T) {
		for lane := range lanes {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				s, a := migrating(t)
				a.Stop()
				for n := 1 + opening + lane; ; n += lanes {
					step := killMigration(s, a, n)
					if step == "" {
						t.Logf("a migration is over before step %d", n)
						return
					}
					steps.Store(step, true)
				}
			})
		}
	})
	// Where the controller-manager is slow, the claim is not Lost, and need not be touched.
	for _, step := range []string{"begin", "retain", "cutover", "delete", "release", "create", "restore", "finish"} {
		if _, ok := steps.Load("migrate." + step); !ok {
			t.Errorf("no agent was killed before %s", step)
		}
	}
}

// killMigration lets an agent that migrates be killed before its n-th step, and started again. It returns that step, ""
// where the migration was over before.
func killMigration(s *harness.Scene, a *harness.Agent, n int) (step string) {
	s.Helper()
	if n > mostSteps {
		s.Fatalf("%d steps are not enough", mostSteps)
	}
	a.RestartAs(bothModes("off"))
	a.AwaitReady()
	h := newHosted(s, a)
	a.Stop()
	o := bothModes("run")
	var err error
	if o.Program, err = env.Faulty(); err != nil {
		s.Fatal(err)
	}
	o.Env = append(o.Env, "HPP_KILL_AT="+strconv.Itoa(n))
	a.RestartAs(o)
	s.Eventually(40*time.Second, fmt.Sprintf("kill %d: killed, or migrated", n), func() error {
		if !a.Alive() {
			return nil
		}
		return h.isCSI()
	})
	if a.Alive() {
		a.Kill()
		return ""
	}
	all := killed.FindAllStringSubmatch(a.Log(), -1)
	step = all[len(all)-1][1]
	h.find()
	a.RestartAs(bothModes("run"))
	s.Eventually(40*time.Second, fmt.Sprintf("kill %d before %s: migrated", n, step), h.isCSI)
	if got := h.find(); got != h.inode {
		s.Errorf("kill %d before %s: inode %d, was %d", n, step, got, h.inode)
	}
	if err := firstError(s.Unwarned(h.claim.UID), s.Unwarned(h.pv.UID), s.Unwarned(s.PV(h.pv.Name).UID)); err != nil {
		s.Errorf("kill %d before %s: %v", n, step, err)
	}
	s.Logf("killed before step %d, %s", n, step)
	a.Stop()
	return step
}
