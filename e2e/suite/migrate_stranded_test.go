package suite

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// oneBackend is an agent of a single backend, as manifests/legacy or manifests/csi has it, with the
// pool of the agent that served both.
func oneBackend(a *harness.Agent, backend string) harness.Options {
	if backend == "csi" {
		return harness.Options{CSI: "csi", DataDir: harness.Datadir("legacy", a.Pool), Pool: a.Pool}
	}
	return harness.Options{Pool: a.Pool}
}

// An administrator goes back to an agent of one backend in the middle of a migration. It cancels
// the migration while the old PV is there, and finishes it if it serves the new one. Otherwise it
// says whose turn it is, on the claim and at /readyz, and an agent of both backends finishes it.
func TestMigrateRolledBack(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ mode, step, form, end string }{
		"there, the old PV is kept, hostPath":  {"run", "delete", "hostpath", "cancelled"},
		"there, the old PV is kept, CSI":       {"run", "retain", "csi", "cancelled"},
		"there, the old PV is gone, hostPath":  {"run", "create", "hostpath", "stranded"},
		"there, the new PV is there, hostPath": {"run", "restore", "hostpath", "stranded"},
		"there, the old PV is gone, CSI":       {"run", "create", "csi", "finished"},
		"back, the old PV is gone, hostPath":   {"back", "create", "hostpath", "finished"},
		"back, the old PV is gone, CSI":        {"back", "release", "csi", "stranded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newHosted(s, a)
			finished := h.isCSI
			if row.mode == "back" {
				a.Stop()
				a.RestartAs(bothModes("run"))
				s.Eventually("migrated", h.isCSI)
				finished = h.isBack
			}
			h.killedBefore(row.step, row.mode)
			a.RestartAs(oneBackend(a, row.form))
			switch row.end {
			case "cancelled":
				s.Eventually("as it was", h.isFirst)
			case "finished":
				s.Eventually("finished", finished)
			case "stranded":
				a.AwaitUnready("both-modes")
				s.Eventually("stranded", func() error { return h.stopped("both-modes") })
				// The agent is not ready from the end of the check on that tried to continue.
				s.Once("nothing is made", func() error {
					if _, err := h.now(); row.step == "create" && !apierrors.IsNotFound(err) {
						return errors.Join(errors.New("there is a PV"), err)
					}
					return h.stopped("both-modes")
				})
				a.Stop()
				a.RestartAs(bothModes("off"))
				s.Eventually("finished", finished)
			}
			a.AwaitReady()
			h.wantSame()
		})
	}
}
