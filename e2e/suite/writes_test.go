package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// writesPolicy has the API server log every request that changes a claim, a PV or an event.
const writesPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
  resources: [{group: "", resources: [persistentvolumeclaims, persistentvolumeclaims/status, persistentvolumes, persistentvolumes/status, events]}]
- level: None
`

// write is one request of the audit log.
type write struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	Response  struct{ Code int } `json:"responseStatus"`
}

func (w write) String() string {
	user := w.User.Username[strings.LastIndexByte(w.User.Username, ':')+1:]
	return fmt.Sprintf("%s: %s %s", user, w.Verb, strings.TrimSuffix(w.ObjectRef.Resource+"/"+w.ObjectRef.Subresource, "/"))
}

// A volume's life costs the API server what the protocol asks for and no write more. This test has
// a control plane of its own.
func TestWritesOfAVolume(t *testing.T) {
	t.Parallel()
	policy, log := filepath.Join(t.TempDir(), "policy.yaml"), filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(policy, []byte(writesPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	own := ownPlane(t, "--audit-policy-file="+policy, "--audit-log-path="+log, "--audit-log-mode=blocking")
	all := own.Scene(t)
	pools := harness.Datadir(harness.LocalPool, all.Path("pools", "csi"))
	a := all.Agent(all.Node("01"), harness.Options{CSI: "hostpath,csi", DataDir: pools})

	t.Run("hostPath", func(t *testing.T) {
		s := own.Scene(t)
		s.Bound(s.Create(harness.Claim{Name: "first", Node: a.Node.Name})) // the event about a pool without quotas comes once
		onlyNeeded(s, log, func(name string) (*corev1.PersistentVolumeClaim, *corev1.Pod) {
			return s.Create(harness.Claim{Name: name, Node: a.Node.Name}), nil
		})
	})
	t.Run("CSI", func(t *testing.T) {
		s := own.Scene(t)
		first := s.Create(harness.Claim{Name: "first", Class: harness.ClassCSI})
		s.Pod(first.Name, a.Node.Hostname)
		s.Bound(first)
		onlyNeeded(s, log, func(name string) (*corev1.PersistentVolumeClaim, *corev1.Pod) {
			return s.Create(harness.Claim{Name: name, Class: harness.ClassCSI}), s.Pod(name, a.Node.Hostname)
		})
	})
}

// The writes of a volume's life, by whom. The agent's events are the library's.
var (
	birth = []string{
		"persistent-volume-binder: update persistentvolumeclaims", // which provisioner it is for
		"agent: create persistentvolumes",
		"persistent-volume-binder: update persistentvolumes/status",
		"persistent-volume-binder: update persistentvolumeclaims",
		"persistent-volume-binder: update persistentvolumeclaims/status",
		"agent: create events", "agent: create events",
	}
	scheduling = "kube-scheduler: update persistentvolumeclaims"
	death      = []string{
		"pvc-protection-controller: update persistentvolumeclaims",
		"persistent-volume-binder: update persistentvolumes/status",
		"agent: delete persistentvolumes",
		"agent: patch persistentvolumes",
		"pv-protection-controller: update persistentvolumes",
	}
)

// onlyNeeded checks the writes of a claim and its pod, if it has one. On a busy machine a write of
// the agent may meet another's, and is repeated; so one volume of three has to be without that.
func onlyNeeded(s *harness.Scene, log string, create func(name string) (*corev1.PersistentVolumeClaim, *corev1.Pod)) {
	s.Helper()
	var errs []error
	for _, name := range []string{"one", "two", "three"} {
		claim, pod := create(name)
		err := lives(s, claim, log, pod)
		if err == nil {
			return
		}
		errs = append(errs, fmt.Errorf("claim %s: %w", name, err))
	}
	s.Error(errors.Join(errs...))
}

// lives compares the writes for the claim until its PV is gone with those that there must be.
func lives(s *harness.Scene, claim *corev1.PersistentVolumeClaim, log string, pod *corev1.Pod) error {
	s.Helper()
	want := birth
	if pod != nil {
		want = append(slices.Clone(birth), scheduling)
	}
	pv := s.Bound(claim)
	var born error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if born = wrote(log, claim, want); born == nil {
			break
		}
	}
	time.Sleep(2 * time.Second) // what follows without need comes soon
	if born == nil {
		born = wrote(log, claim, want)
	}
	if pod != nil {
		s.DeletePod(pod)
	}
	s.Delete(claim)
	s.Gone(pv.Name)
	time.Sleep(2 * time.Second)
	if born != nil {
		return fmt.Errorf("a new volume: %w", born)
	}
	if err := wrote(log, claim, slices.Concat(want, death)); err != nil {
		return fmt.Errorf("until the volume was gone: %w", err)
	}
	return nil
}

// wrote returns nil where the writes about the claim and its PV, but for the user's own, are
// exactly those wanted.
func wrote(log string, claim *corev1.PersistentVolumeClaim, want []string) error {
	data, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		var w write
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			return err
		}
		ref := w.ObjectRef
		about := ref.Name == claim.Name || ref.Name == harness.PVName(claim) || ref.Resource == "events" && strings.HasPrefix(ref.Name, claim.Name+".")
		words := strings.ReplaceAll(w.String(), harness.CSIAccount, "agent")
		agent := strings.HasPrefix(words, "agent:")
		switch {
		case !about, strings.HasPrefix(words, "admin:"), ref.Resource == "events" && !agent:
		case agent || w.Response.Code < 300: // others may meet each other; the agent must not try in vain either
			got = append(got, words)
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		return fmt.Errorf("writes:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	return nil
}
