package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// trashCommand runs the command trash beside the agent, and returns what it printed.
func trashCommand(a *harness.Agent, args ...string) (string, error) {
	var out, failed strings.Builder
	cmd := exec.Command(env.Agent, append(append([]string{"trash"}, args...), "--http-address="+a.Address(9898))...)
	cmd.Env = append(os.Environ(), "PV_DIR="+a.Pool)
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%q: %w: %s", args, err, failed.String())
	}
	return out.String(), nil
}

// keptOf returns the IDs of the deleted volumes of a claim that its pool keeps.
func keptOf(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim) (ids []string) {
	s.Helper()
	out, err := trashCommand(a, "-o", "json")
	var all struct {
		Kept []struct{ ID, Namespace, Claim, PV, NotOffered string }
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	for _, k := range all.Kept {
		if k.Namespace == claim.Namespace && k.Claim == claim.Name && k.PV == harness.PVName(claim) && k.NotOffered == "" {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

// deletedKept deletes a claim, waits until its PV is gone, and returns the ID of its volume, which is kept.
func deletedKept(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim) string {
	s.Helper()
	s.Delete(claim)
	s.Gone(harness.PVName(claim))
	if err := harness.Missing(filepath.Join(a.Pool, harness.PVName(claim))); err != nil {
		s.Error(err)
	}
	ids := keptOf(s, a, claim)
	if len(ids) != 1 {
		s.Fatalf("kept of claim %s: %q", claim.Name, ids)
	}
	return ids[0]
}

// A volume whose claim was deleted is kept, also over restarts of the agent, and comes back with its
// data: Bound to a claim of its name, or of another one. Killed in between, the agent goes on. A class
// decides for its volumes, and one that is removed, or whose class keeps none, is gone.
func TestUndelete(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{Flags: []string{"--trash-retention=1h", "--orphans=delete", "--orphan-grace=0s"}})
	harness.RoomToKeep(t, a.Pool)
	for what, row := range map[string]struct {
		as     string
		killAt string
	}{"as it was": {}, "another claim": {as: "other"}, "killed": {killAt: "restore.rename"}} {
		claim := filled(s, a, harness.Claim{})
		volume := harness.PVName(claim)
		id := deletedKept(s, a, claim)
		a.Stop()
		if row.killAt == "" {
			a.Restart()
		} else {
			a.RestartWith("HPP_KILL_AT=" + row.killAt)
		}
		a.AwaitReady()
		if out, err := trashCommand(a, "plan", id); err != nil || !strings.Contains(out, `"verdict": "made"`) || !strings.Contains(out, formerPolicy+`": "Delete"`) {
			t.Errorf("%s: the plan: %v\n%s", what, err, out)
		}
		if _, err := trashCommand(a, "undelete", id); (err != nil) != (row.killAt != "") {
			t.Fatalf("%s: %v", what, err)
		}
		if row.killAt != "" {
			awaitKilled(s, a)
			a.Restart()
			a.AwaitReady()
		}
		if err := intact(a, claim); err != nil || len(keptOf(s, a, claim)) != 0 {
			t.Errorf("%s: %v, kept %q", what, err, keptOf(s, a, claim))
		}
		back := claim
		show := []string{"show", volume}
		if row.as != "" {
			back = claim.DeepCopy()
			back.Name = claim.Name + row.as
			show = append(show, "--as="+back.Namespace+"/"+back.Name)
		}
		text, err := orphanCommand(a, show...)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := env.Plane.Kubectl(text, "apply", "-f", "-"); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, text)
		}
		back = s.Read(back)
		s.Eventually(what+": bound and recorded", func() error {
			if now := s.Read(back); now.Status.Phase != corev1.ClaimBound || now.Spec.VolumeName != volume {
				return s.NotYet(back.UID, "claim is %s of %q", now.Status.Phase, now.Spec.VolumeName)
			}
			if v := a.Volume(volume); v.State != "bound" || v.Orphan.Why != "" || v.Owner.UID != string(back.UID) {
				return fmt.Errorf("record %+v", v)
			}
			return intact(a, claim)
		})
		s.PatchPV(volume, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
		s.Delete(back)
		s.Gone(volume)
	}
	s.Eventually("three are kept", func() error { return a.MetricIs(3, "kubevirt_hpp_pool_kept_entries") })
	s.Eventually("none goes", func() error { return a.MetricIs(0, "kubevirt_hpp_pool_trash_entries") })
	if out, err := trashCommand(a, "remove", "--namespace="+s.Namespace); err != nil || strings.Count(out, "removed ") != 3 {
		t.Errorf("remove: %v\n%s", err, out)
	}
	s.Eventually("none is kept", func() error { return a.MetricIs(0, "kubevirt_hpp_pool_kept_entries") })
	s.Eventually("their files are gone", func() error {
		if left := s.Children(filepath.Join(a.Pool, ".hostpath-provisioner", "kept")); len(left) > 0 {
			return fmt.Errorf("left %q", left)
		}
		if left := s.Children(filepath.Join(a.Pool, ".hostpath-provisioner", "trash")); len(left) > 0 {
			return fmt.Errorf("left %q", left)
		}
		return nil
	})
	none := s.Class("none", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"trashRetention": "0"} })
	claim := filled(s, a, harness.Claim{Class: none})
	s.Delete(claim)
	s.Gone(harness.PVName(claim))
	if ids := keptOf(s, a, claim); len(ids) > 0 {
		t.Errorf("a class that keeps none: %q", ids)
	}
	long := s.Class("long", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"trashRetention": "169h"} })
	s.AwaitWarning(a, s.Create(harness.Claim{Node: a.Node.Name, Class: long}).UID, "ProvisioningFailed", "trashRetention is 169h.*at most 168h0m0s")
}
