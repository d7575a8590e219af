package suite

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// orphanCommand runs the command orphans beside the agent, and returns what it printed.
func orphanCommand(a *harness.Agent, args ...string) (string, error) {
	args = append(append([]string{"orphans"}, args...), "--http-address="+a.Address(9898))
	if len(args) > 2 {
		args = append(args, "--pool="+a.Pool)
	}
	var out, failed strings.Builder
	cmd := exec.Command(env.Agent, args...)
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%q: %w: %s", args, err, failed.String())
	}
	return out.String(), nil
}

// orphan is a claim whose PV, and then the claim, went while the agent saw both.
func orphan(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim, claimToo bool) (volume string) {
	s.Helper()
	s.ForcePVAway(harness.PVName(claim)) // first, or the agent deletes both
	if claimToo {
		s.Delete(claim)
		s.ClaimGone(claim)
	}
	s.Eventually("orphan found", func() error {
		out, err := orphanCommand(a)
		if err == nil && !strings.Contains(out, harness.PVName(claim)) {
			err = fmt.Errorf("the list is\n%s", out)
		}
		return err
	})
	return harness.PVName(claim)
}

func awaitKilled(s *harness.Scene, a *harness.Agent) {
	s.Helper()
	s.Eventually("agent killed", func() error {
		if a.Alive() {
			return errors.New("it lives")
		}
		return nil
	})
}

// What "orphans show" prints brings a volume back, with its data: to a claim of its name, and to
// one that is Lost. Also one whose removal was begun. The agent takes it for the PV's from then on,
// so that it is deleted by the PV's policy.
func TestOrphanIsBroughtBack(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{})
	for _, what := range []string{"claim gone", "claim Lost", "in the trash"} {
		claim, claimToo := filled(s, a, harness.Claim{}), what != "claim Lost"
		volume := orphan(s, a, claim, claimToo)
		if what == "in the trash" { // its removal was begun
			a.Stop()
			a.RestartWith("HPP_KILL_AT=delete.move")
			a.AwaitReady()
			if _, err := orphanCommand(a, "remove", volume); err == nil || harness.Missing(filepath.Join(a.Pool, volume)) != nil {
				t.Errorf("not killed halfway: %v", err)
			}
			awaitKilled(s, a)
			a.Restart()
			a.AwaitReady()
		}
		text, err := orphanCommand(a, "show", volume)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := env.Plane.Kubectl(text, "apply", "-f", "-"); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, text)
		}
		back := claim
		if claimToo {
			back = s.Read(claim) // another one, of the name
		} else {
			// As migration.md says of Lost claims: the controller-manager looks at one again within
			// 15 seconds, or when it changes.
			if _, err := env.Plane.Kubectl("", "-n", claim.Namespace, "annotate", "pvc", claim.Name, "look=again"); err != nil {
				t.Fatal(err)
			}
		}
		s.Eventually(what+": bound", func() error {
			if now := s.Read(back); now.Status.Phase != corev1.ClaimBound || now.Spec.VolumeName != volume {
				return s.NotYet(back.UID, "claim is %s of %q", now.Status.Phase, now.Spec.VolumeName)
			}
			return intact(a, claim)
		})
		s.Eventually(what+": recorded", func() error {
			if v := a.Volume(volume); v.State != "bound" || v.Orphan.Why != "" || v.Owner.UID != string(back.UID) {
				return fmt.Errorf("record %+v", v)
			}
			return nil
		})
		s.PatchPV(volume, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
		s.Delete(back)
		s.Gone(volume)
		if err := harness.Missing(filepath.Join(a.Pool, volume)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An administrator removes one orphan by its name, while the agent runs and reports orphans. Killed
// before any step, the agent or the next call ends the removal, and nothing else goes.
func TestOrphanIsRemovedByName(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{})
	other := filled(s, a, harness.Claim{})
	lost := filled(s, a, harness.Claim{})
	orphan(s, a, lost, false)
	if out, err := orphanCommand(a, "remove", harness.PVName(lost)); err == nil || !strings.Contains(err.Error(), "its claim exists") {
		t.Errorf("a volume with a claim: %v\n%s", err, out)
	}
	if out, err := orphanCommand(a, "remove", harness.PVName(other)); err == nil || !strings.Contains(err.Error(), "not an orphan") {
		t.Errorf("a volume with a PV: %v\n%s", err, out)
	}
	for _, step := range []string{"", "delete.rename", "delete.sync", "delete.move"} {
		claim := filled(s, a, harness.Claim{})
		name := orphan(s, a, claim, true)
		if step != "" {
			a.Stop()
			a.RestartWith("HPP_KILL_AT=" + step)
			a.AwaitReady()
		}
		_, err := orphanCommand(a, "remove", name)
		if killed := strings.Contains(a.Log(), "killed before step "+step+"\n"); (step != "") != killed || killed != (err != nil) {
			t.Errorf("before %q: killed %v, %v", step, killed, err)
		}
		if step != "" {
			awaitKilled(s, a)
			a.Restart()
			a.AwaitReady()
			_, err = orphanCommand(a, "remove", name)
		}
		if err != nil && !strings.Contains(err.Error(), "it may have been removed") {
			t.Errorf("killed before %q, and called again: %v", step, err)
		}
		if err := harness.Missing(filepath.Join(a.Pool, name)); err != nil {
			t.Errorf("killed before %q: %v", step, err)
		}
		for _, claim := range []*corev1.PersistentVolumeClaim{other, lost} {
			if err := intact(a, claim); err != nil {
				t.Errorf("killed before %q: %v", step, err)
			}
		}
	}
}
