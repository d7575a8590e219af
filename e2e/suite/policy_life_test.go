package suite

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// bound is an agent of the account whose token is bound to a pod of the node.
func bound(s *harness.Scene, node harness.Node, account string, o harness.Options) *harness.Agent {
	s.Helper()
	o.Kubeconfig = s.PodKubeconfig(s.AgentPod(node, account))
	return s.Later(node, o)
}

// both is an agent that serves both kinds of claims.
func both(s *harness.Scene, node harness.Node, flags ...string) *harness.Agent {
	s.Helper()
	return bound(s, node, harness.CSIAccount, harness.Options{
		CSI: "hostpath,csi", DataDir: harness.Datadir(harness.LocalPool, node.Pool), Flags: flags,
	})
}

// policedLife: what agents do in the life of a claim the policies let them do, in each mode.
func policedLife(s *harness.Scene) {
	one, two := s.Node("01"), s.Node("02")
	agents := []*harness.Agent{bound(s, one, harness.Account, harness.Options{}), both(s, two)}
	for _, a := range agents {
		a.Restart()
	}
	claims := map[*corev1.PersistentVolumeClaim]*harness.Agent{}
	for _, a := range agents {
		a.AwaitReady()
		claims[s.Create(harness.Claim{Node: a.Node.Name})] = a
		claims[s.Create(harness.Claim{Class: harness.ClassDelayed, Selected: a.Node.Name})] = a
	}
	claims[s.Create(harness.Claim{Class: harness.ClassCSI, Selected: two.Name})] = agents[1]
	for claim, a := range claims {
		s.Bound(claim)
		ask(s, claim, "25Mi")
		wantSize(s, a, claim, "25Mi")
	}
	s.Eventually("published", func() error { _, err := s.Capacity(harness.ClassCSI, two); return err })
	for claim := range claims {
		pv := s.PV(harness.PVName(claim))
		s.Delete(claim)
		s.Gone(pv.Name)
	}
	for _, a := range agents {
		s.Eventually("empty pool", func() error { return empty(s, a) })
	}
}

// policedGiveBack: what does not fit goes back to the scheduler; what cannot grow says so on the
// claim.
func policedGiveBack(s *harness.Scene) {
	a := both(s, s.Node("01"), "--publish-capacity=false")
	a.Restart()
	a.AwaitReady()
	for _, class := range []string{harness.ClassDelayed, harness.ClassCSI} {
		claim := s.Create(harness.Claim{Class: class, Selected: a.Node.Name, Size: "1Pi"})
		s.Eventually("given back", func() error {
			if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != "" {
				return s.NotYet(claim.UID, "the claim is still for %s", on)
			}
			return nil
		})
	}
	claim := s.Create(harness.Claim{Node: a.Node.Name})
	s.Bound(claim)
	ask(s, claim, "1Pi")
	s.Eventually("said why", func() error {
		return saysWhy(s, claim, corev1.PersistentVolumeClaimControllerResizeInfeasible, "cannot grow")
	})
}

// policedSweep: PVs that somebody else made get label and pool, and one that is made again under
// its name, as a migration does, with a source of the other kind, stays the agent's.
func policedSweep(s *harness.Scene) {
	a := both(s, s.Node("01"))
	claim := s.Create(harness.Claim{Node: a.Node.Name})
	pv := older(s, olderPV(s, a, claim, harness.PVName(claim)))
	s.Bound(claim)
	a.Restart()
	a.AwaitReady()
	adopted := func() error { return owned(s, a, pv.Name, pv.Name, claim, true) }
	s.Eventually("label and pool", adopted)

	agents := s.As(s.PodKubeconfig(s.AgentPod(a.Node, harness.CSIAccount))).CoreV1().PersistentVolumes()
	must := func(what string, err error) {
		s.Helper()
		if err != nil {
			s.Fatalf("%s: %v", what, err)
		}
	}
	change := func(patch string) {
		s.Helper()
		_, err := agents.Patch(s.Context(), pv.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(patch, err)
	}
	a.Stop()
	now := s.PV(pv.Name)
	change(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	must("delete", agents.Delete(s.Context(), pv.Name, metav1.DeleteOptions{}))
	change(`{"metadata":{"finalizers":null}}`)
	s.Gone(pv.Name)
	csi := handmadeCSI(s, a, claim.UID, claim.Name)
	csi.Annotations[harness.AnnPool] = now.Annotations[harness.AnnPool]
	csi.Spec.StorageClassName, csi.Spec.ClaimRef = now.Spec.StorageClassName, now.Spec.ClaimRef
	_, err := agents.Create(s.Context(), csi, metav1.CreateOptions{})
	must("create again", err)
	a.Restart()
	a.AwaitReady()
	s.Eventually("still the agent's", adopted)
}

// policedHostname: where a node's hostname is not its name, hostPath volumes wait for the
// administrator to list it.
func policedHostname(s *harness.Scene) {
	node := s.NodeNamed(s.Name+"-node-01", s.Name+"-host-01")
	a := bound(s, node, harness.Account, harness.Options{})
	a.Restart()
	a.AwaitReady()
	claim := s.Create(harness.Claim{Node: node.Name})
	s.Eventually("refused", func() error {
		return s.Warned(claim.UID, harness.ReasonFailed, `not of the agent's own node`, `kubernetes.io/hostname=`+node.Name)
	})
	patch := fmt.Appendf(nil, `{"data":{%q:%q}}`, node.Name, node.Hostname)
	_, err := s.Client.CoreV1().ConfigMaps(harness.Namespace).Patch(s.Context(), "hostpath-provisioner-hostnames",
		types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Eventually("bound", func() error { return s.IsBound(claim) })
	renamed(s, node, claim)
}

// renamed changes the hostname label under the agent, which then makes PVs with the new one. It
// deletes those with the former one once the administrator lists that.
func renamed(s *harness.Scene, node harness.Node, older *corev1.PersistentVolumeClaim) {
	now := node.Hostname + "-renamed"
	_, err := s.Client.CoreV1().Nodes().Patch(s.Context(), node.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, corev1.LabelHostname, now), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
	list := func(names string) {
		s.Helper()
		_, err := s.Client.CoreV1().ConfigMaps(harness.Namespace).Patch(s.Context(), "hostpath-provisioner-hostnames",
			types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:%q}}`, node.Name, names), metav1.PatchOptions{})
		if err != nil {
			s.Fatal(err)
		}
	}
	list(now)
	time.Sleep(6 * time.Second) // the agent reads the label again for a claim after five
	claim := s.Create(harness.Claim{Node: node.Name})
	s.Bound(claim)
	affinity := s.PV(harness.PVName(claim)).Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
	if len(affinity) != 1 || affinity[0] != now {
		s.Errorf("the new PV requires %q, want %s", affinity, now)
	}
	s.Delete(older)
	s.Eventually("kept", func() error {
		return s.Warned(s.PV(harness.PVName(older)).UID, "VolumeRefused", now+","+node.Hostname)
	})
	list(now + "," + node.Hostname)
	s.Gone(harness.PVName(older))
	s.Delete(claim)
	s.Gone(harness.PVName(claim))
}
