package nodes

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// csiMade is a claim that the form which runs now has served, and that no pod uses any more.
func csiMade(s *harness.Scene) *corev1.PersistentVolumeClaim {
	s.Helper()
	claim := csiClaim(s)
	end(s, pod{claim: claim.Name, script: "echo made >/data/file"}.run(s))
	return claim
}

// csiUnmake has the form which runs now read and delete what another has made.
func csiUnmake(s *harness.Scene, claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	p := pod{claim: claim.Name, script: "cat /data/file"}.run(s)
	if got := output(s, p); got != "made\n" {
		s.Errorf("a pod reads %q from what the other form has made", got)
	}
	end(s, p)
	s.Delete(claim)
	s.Gone(harness.PVName(claim))
	csiGone(s, harness.PVName(claim))
}

// The standard provisioner takes the agent's work over, under a pod that runs. It knows nothing of
// the objects that the agent has told the scheduler, so they are removed as the manifest says.
func csiSwitch(t *testing.T, s *harness.Scene) {
	loadSidecar(t)
	claim := csiMade(s)
	csiOutlives(s, one, func() { csiWithSidecar.deploy(t) })
	if n := agentsObjects(s); n != 2 {
		t.Errorf("the agents left %d capacity objects, want 2", n)
	}
	_, err := kubectl("", "-n", harness.Namespace, "delete", "csistoragecapacities", "-l", harness.LabelNode)
	must(s, "remove what the agents left", err)
	csiUnmake(s, claim)
	csiTogether(t, "Group", map[string]csiRow{
		"registered": csiRegistered, "persists": csiPersists, "generic": csiGeneric, "nospace": csiWithSidecar.csiNoSpace,
	})
	t.Run("permitted", csiWithSidecar.permitted)
}

func agentsObjects(s *harness.Scene) int {
	s.Helper()
	list, err := s.Client.StorageV1().CSIStorageCapacities(harness.Namespace).List(s.Context(), metav1.ListOptions{LabelSelector: harness.LabelNode})
	must(s, "list capacities", err)
	return len(slices.DeleteFunc(list.Items, func(o storagev1.CSIStorageCapacity) bool { return o.StorageClassName != csiClass }))
}

// One container again, which now serves hostPath claims as well, in place of the agent that did. It
// removes what the sidecar has told the scheduler, and finds the volumes of both.
func csiSwitchBack(t *testing.T, s *harness.Scene) {
	claim, old := csiMade(s), s.Create(harness.Claim{Node: one.Name})
	s.Bound(old)
	takeAgentAway(s)
	csiOutlives(s, other, func() { csiBothModes.deploy(t) })
	s.Eventually("the agent's objects alone", func() error {
		if n := agentsObjects(s); n != 2 {
			return fmt.Errorf("%d are the agents'", n)
		}
		_, err := capacities(s)
		return err
	})
	csiUnmake(s, claim)
	s.Delete(old)
	s.Gone(harness.PVName(old))

	fresh := s.Create(harness.Claim{Node: one.Name})
	p := pod{claim: fresh.Name, script: "echo here >/data/file"}.run(s)
	reads(s, hostPath(one, s.Bound(fresh).Name, "file"), "here\n")
	text, err := kubectl("", "-n", harness.Namespace, "exec", awaitDriver(s, one).Name, "--", "/hostpath-provisioner", "inspect")
	must(s, "inspect", err)
	t.Logf("\n%s", text)
	end(s, p)
	s.Delete(fresh)
	s.Gone(harness.PVName(fresh))
	csiBothModes.permitted(t)
}

// takeAgentAway removes the agent that serves hostPath claims alone. What it has served stays.
func takeAgentAway(s *harness.Scene) {
	s.Helper()
	for _, file := range []string{"daemonset", "rbac", "serviceaccount", "quota"} {
		_, err := kubectl("", "delete", "--cascade=foreground", "-f", filepath.Join(root, "manifests", "legacy", file+".yaml"))
		must(s, "take the agent away", err)
	}
}

// redeploy gives the hostPath claims the agent back that they had before.
func redeploy(t *testing.T) {
	for _, args := range [][]string{
		{"apply", "-k", filepath.Join(root, "manifests", "legacy")},
		{"-n", harness.Namespace, "rollout", "status", "daemonset/hostpath-provisioner", "--timeout=180s"},
	} {
		if _, err := kubectl("", args...); err != nil {
			t.Error(err)
		}
	}
}
