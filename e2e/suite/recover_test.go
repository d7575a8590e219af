package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const formerPolicy = "hostpath-provisioner.kubevirt.io/former-reclaim-policy"

// recoverCommand runs the command recover beside the agent, and returns what it printed.
func recoverCommand(s *harness.Scene, a *harness.Agent, args ...string) string {
	s.Helper()
	var failed strings.Builder
	cmd := exec.CommandContext(s.Context(), env.Agent, append([]string{"recover", "--http-address=" + a.Address(9898)}, args...)...)
	cmd.Env = append(os.Environ(), "PV_DIR="+a.Pool)
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("recover %q: %v: %s", args, err, failed.String())
	}
	return string(out)
}

// ofCluster has the record of a volume be of another cluster, as on the disks of a lost one.
func ofCluster(s *harness.Scene, a *harness.Agent, volume, uid string) {
	s.Helper()
	path := filepath.Join(a.Pool, ".hostpath-provisioner", "records", volume)
	data, err := os.ReadFile(path)
	var record map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	if err == nil && record["claim"] == nil {
		err = errors.New("it has no claim")
	}
	if err == nil {
		record["cluster"] = json.RawMessage(`"` + uid + `"`)
		data, err = json.Marshal(record)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		s.Fatalf("record %s: %v", path, err)
	}
}

// The disks of a lost cluster bring its PVs and claims back, with labels and data; the PV has policy
// Retain and notes the one that it gets back. The plan leaves them until that cluster is named, and a
// directory without a record for ever.
func TestRecoverFromDisks(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{})
	labelled := harness.Claim{Edit: func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"app": "db"} }}
	claims := []*corev1.PersistentVolumeClaim{filled(s, a, labelled), filled(s, a, labelled)}
	for _, c := range claims {
		s.Eventually("claim recorded on the disk", func() error {
			data, err := os.ReadFile(filepath.Join(a.Pool, ".hostpath-provisioner", "records", harness.PVName(c)))
			if err == nil && !strings.Contains(string(data), `"app": "db"`) {
				err = fmt.Errorf("the record is\n%s", data)
			}
			return err
		})
	}
	for _, c := range claims {
		orphan(s, a, c, true)
	}
	a.Stop()
	for _, c := range claims {
		ofCluster(s, a, harness.PVName(c), "lost")
	}
	if err := os.Mkdir(filepath.Join(a.Pool, "by-hand"), 0o755); err != nil {
		t.Fatal(err)
	}
	a.Restart()
	a.AwaitReady()
	if out := recoverCommand(s, a); strings.Count(out, "--from-cluster=lost") != 2 || !strings.Contains(out, "a directory without a record") || strings.Contains(out, "made") {
		t.Errorf("the plan is\n%s", out)
	}
	text := recoverCommand(s, a, "--from-cluster=lost", "-o", "yaml")
	if out, err := env.Plane.Kubectl(text, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, text)
	}
	for _, c := range claims {
		back := s.Read(c) // another one, of the name
		s.Eventually("bound", func() error {
			if now := s.Read(back); now.Status.Phase != corev1.ClaimBound || now.Spec.VolumeName != harness.PVName(c) || now.Labels["app"] != "db" {
				return s.NotYet(now.UID, "claim is %s of %q, labels %v", now.Status.Phase, now.Spec.VolumeName, now.Labels)
			}
			return intact(a, c)
		})
		s.Eventually("recorded", func() error {
			if v := a.Volume(harness.PVName(c)); v.Owner.UID != string(s.Read(back).UID) || v.Orphan.Why != "" {
				return fmt.Errorf("record %+v", v)
			}
			return nil
		})
		if pv := s.PV(harness.PVName(c)); pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || pv.Annotations[formerPolicy] != "Delete" {
			t.Errorf("PV %s: policy %s, noted %q", pv.Name, pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations[formerPolicy])
		}
		s.PatchPV(harness.PVName(c), `{"metadata":{"annotations":{"`+formerPolicy+`":null}},"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	}
	if out := recoverCommand(s, a); strings.Count(out, "already there") != 2 {
		t.Errorf("the plan after that is\n%s", out)
	}
	// The volumes are the new claims', and go with them.
	for _, c := range claims {
		s.Delete(s.Read(c))
		s.Gone(harness.PVName(c))
		if err := harness.Missing(filepath.Join(a.Pool, harness.PVName(c))); err != nil {
			t.Error(err)
		}
	}
	if err := os.Remove(filepath.Join(a.Pool, "by-hand")); err != nil {
		t.Error(err)
	}
}
