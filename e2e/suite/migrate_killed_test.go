package suite

import (
	"errors"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// migrationSteps are what every migration changes, the journal or the API server, there and back.
// The steps of a write to the journal are killed at where pools are tested. A claim is touched as
// well, but only where it is Lost by then.
var migrationSteps = []string{"begin", "retain", "cutover", "delete", "release", "create", "restore", "finish"}

// killedAs has the agent, run with these options, killed before that step.
func killedAs(s *harness.Scene, a *harness.Agent, o harness.Options, step string) {
	s.Helper()
	a.Stop()
	o.Env = append(o.Env, "HPP_KILL_AT="+step)
	a.RestartAs(o)
	s.Eventually("killed before "+step, func() error {
		if a.Alive() {
			return errors.New("it is alive")
		}
		return nil
	})
}

// Wherever the agent is killed, the next start brings it to its end.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	for _, step := range migrationSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			newHosted(s, a).outlives(step, "run", (*hosted).isCSI)
		})
	}
}

// Wherever the agent is killed on the way back, the next start brings it to its end.
func TestMigrateBackKilled(t *testing.T) {
	t.Parallel()
	for _, step := range migrationSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newHosted(s, a)
			a.Stop()
			a.RestartAs(bothModes("run"))
			s.Eventually("migrated", h.isCSI)
			h.outlives(step, "back", (*hosted).isBack)
		})
	}
}

// outlives has the agent killed before that step of that migration, and wants the next agent to
// finish it.
func (h *hosted) outlives(step, mode string, finished func(*hosted) error) {
	h.Helper()
	h.killedBefore(step, mode)
	h.find()
	h.a.RestartAs(bothModes(mode))
	h.Eventually("finished", func() error { return finished(h) })
	h.wantSame()
	h.wantUnwarned()
}

// wantUnwarned checks that nobody warned about claim or PV, the first or the one that is there.
func (h *hosted) wantUnwarned() {
	h.Helper()
	if err := firstError(h.Unwarned(h.claim.UID), h.Unwarned(h.pv.UID), h.Unwarned(h.PV(h.pv.Name).UID)); err != nil {
		h.Error(err)
	}
}

// The record of a volume that is taken over is written with the journal, and goes with it: the next
// agent takes the volume over, or, if it is not to any more, leaves nothing of it.
func TestMigrateOthersKilled(t *testing.T) {
	t.Parallel()
	for i, row := range []struct{ step, then string }{
		{"adopt.record", "run"}, {"migrate.retain", "run"}, {"migrate.cutover", "off"}, {"migrate.retain", "plan"}, {"migrate.delete", "off"},
	} {
		t.Run(row.step+", then "+row.then, func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newTheirs(s, a, otherProvisioners[i%len(otherProvisioners)])
			inode := h.find()
			killedAs(s, a, bothModes("run", fromOthers), row.step)
			if row.then == "run" {
				a.RestartAs(bothModes("run", fromOthers))
				s.Eventually("taken over", h.isOurs)
			} else {
				a.RestartAs(bothModes(row.then))
				s.Eventually("as it was", h.isTheirs)
			}
			if got := h.find(); got != inode {
				t.Errorf("inode %d, was %d", got, inode)
			}
		})
	}
}

// Given back, nothing of the volume is left, wherever the agent is killed.
func TestMigrateOthersBackKilled(t *testing.T) {
	t.Parallel()
	for i, step := range []string{"migrate.begin", "migrate.create", "migrate.finish"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newTheirs(s, a, otherProvisioners[i%len(otherProvisioners)])
			h.restarted("run", fromOthers)
			s.Eventually("taken over", h.isOurs)
			killedAs(s, a, bothModes("back"), step)
			a.RestartAs(bothModes("back"))
			s.Eventually("given back", h.isTheirs)
			h.find()
		})
	}
}
