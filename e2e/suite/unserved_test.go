package suite

import (
	"errors"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// unservedWithin is the time after which a claim that no node can serve has its event, also if the
// agents have just started.
const unservedWithin = 2 * time.Minute

// Claims that no agent will ever serve get one event of one agent each, without an operator.
func TestUnservedClaims(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	var hosts []string
	var agents []*harness.Agent
	for _, name := range []string{"01", "02"} {
		node := s.Node(name)
		a := s.Start(node, harness.Options{CSI: "hostpath,csi", DataDir: harness.Datadir(harness.LocalPool, s.Path("pools", name)),
			Flags: []string{logChecks}})
		a.AwaitReady()
		agents = append(agents, a)
		hosts = append(hosts, node.Hostname)
	}
	in := func(t *testing.T) *harness.Scene {
		scene := *s
		scene.TB = t
		return &scene
	}
	typo := s.CSIClass("typo", func(c *storagev1.StorageClass) { c.Parameters[harness.StoragePool] = "lcoal" })
	missing := s.Name + "-no-pv"
	rows := map[string]func(*testing.T){}
	for name, row := range map[string]struct {
		claim harness.Claim
		words []string
	}{
		"pool of no node": {harness.Claim{Class: typo}, []string{`no node has a pool "lcoal"`, harness.LocalPool}},
		"too large":       {harness.Claim{Class: harness.ClassCSI, Size: "4Ei"}, []string{"4Ei requested", "no node has that much available in pool " + harness.LocalPool, `requested 4611686018427387904, available \d+`}},
		"PV is missing": {harness.Claim{Class: harness.ClassCSI, Edit: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName = missing
		}}, []string{missing, "does not exist", "restore that PV"}},
	} {
		rows[name] = func(t *testing.T) {
			s := in(t)
			claim := s.Create(row.claim)
			warned := func() error { return s.Warned(claim.UID, harness.ReasonFailed, row.words...) }
			s.Within(unservedWithin, "warning", warned)
			awaitChecks(s, claim, agents...)
			s.Once("one warning", warned)
			if now := s.Read(claim); now.Status.Phase != corev1.ClaimPending || now.Spec.VolumeName != claim.Spec.VolumeName {
				t.Errorf("the claim is %s, with volume %q", now.Status.Phase, now.Spec.VolumeName)
			}
		}
	}
	for name, class := range map[string]string{"CSI": harness.ClassCSI, "hostPath": harness.ClassDelayed} {
		rows["chosen node is missing, "+name] = func(t *testing.T) {
			s := in(t)
			claim := s.Create(harness.Claim{Class: class, Selected: s.Name + "-node-99"})
			pod := s.Pod(claim.Name, hosts...)
			s.Within(unservedWithin, "served by another node", func() error { return s.IsBound(claim) })
			s.Scheduled(pod)
			awaitEvent(s, claim.UID, "NodeGone", s.Name+"-node-99")
		}
	}
	atOnce(t, rows)
}

// logChecks is a flag of agents with which they log each check of a claim that no agent may serve.
const logChecks = "--v=4"

// awaitChecks waits until each of the agents has checked whether the claim needs an event. The first
// records the event, and the others find it.
func awaitChecks(s *harness.Scene, claim *corev1.PersistentVolumeClaim, agents ...*harness.Agent) {
	s.Helper()
	line := regexp.MustCompile(`Checked a claim that waits.*"` + regexp.QuoteMeta(claim.Namespace+"/"+claim.Name) + `"`)
	for _, a := range agents {
		s.Eventually("check of claim "+claim.Name+" by the agent of "+a.Node.Name, func() error {
			if !line.MatchString(a.Log()) {
				return errors.New("it is not in the log")
			}
			return nil
		})
	}
}
