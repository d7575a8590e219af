package suite

import (
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
	for _, name := range []string{"01", "02"} {
		node := s.Node(name)
		s.Start(node, harness.Options{CSI: "hostpath,csi", DataDir: harness.Datadir(harness.LocalPool, s.Path("pools", name))}).AwaitReady()
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
			s.Always(s.Scaled(40*time.Second), "one warning", warned)
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
