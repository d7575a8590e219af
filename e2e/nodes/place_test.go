package nodes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

func TestImmediateOnANode(t *testing.T) {
	withAgents(t)
	immediateOnANode(t, newScene(t))
}

func immediateOnANode(t *testing.T, s *harness.Scene) {
	claim := s.Create(harness.Claim{Node: one.Name})
	volume := s.Bound(claim).Name
	wantOnlyOn(s, volume, one)

	first := pod{claim: claim.Name, script: "echo written by the first >/data/file"}.run(s)
	if first.Spec.NodeName != one.Name {
		t.Errorf("the pod is on %s, its volume on %s", first.Spec.NodeName, one.Name)
	}
	if got, err := os.ReadFile(hostPath(one, volume, "file")); string(got) != "written by the first\n" {
		t.Errorf("on the node: %q, %v", got, err)
	}
	end(s, first)
	second := pod{claim: claim.Name, script: "cat /data/file"}.run(s)
	if got := output(s, second); got != "written by the first\n" {
		t.Errorf("the second pod read %q", got)
	}
	wantOnlyOn(s, volume, one)
}

func TestDelayedFollowsThePod(t *testing.T) {
	withAgents(t)
	delayedFollowsThePod(t, newScene(t))
}

func delayedFollowsThePod(t *testing.T, s *harness.Scene) {
	claim := s.Create(harness.Claim{Class: harness.ClassDelayed})
	p := pod{claim: claim.Name, script: "echo here >/data/file", hostname: other.Hostname}.run(s)
	if p.Spec.NodeName != other.Name {
		t.Errorf("the pod is on %s, want %s", p.Spec.NodeName, other.Name)
	}
	wantOnlyOn(s, s.Bound(claim).Name, other)
	if got, err := os.ReadFile(hostPath(other, harness.PVName(claim), "file")); string(got) != "here\n" {
		t.Errorf("on the node: %q, %v", got, err)
	}
}

// A volume is open to whatever user the pod runs as: the agent's umask takes nothing away.
func TestPodThatIsNotRoot(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	claim := s.Create(harness.Claim{Node: other.Name})
	volume := s.Bound(claim).Name
	if got := strings.TrimSpace(command(s, "stat", "-c", "%a %u %g", hostPath(other, volume))); got != "777 0 0" {
		t.Errorf("mode and owner of the volume are %s, want 777 0 0", got)
	}
	p := pod{claim: claim.Name, user: 1000, script: "mkdir /data/dir && id -u >/data/dir/file && cat /data/dir/file"}.run(s)
	if got := output(s, p); got != "1000\n" {
		t.Errorf("the pod wrote %q, want its user, 1000", got)
	}
	if got := strings.TrimSpace(command(s, "stat", "-c", "%u", hostPath(other, volume, "dir", "file"))); got != "1000" {
		t.Errorf("on the node the file belongs to %s, want 1000", got)
	}
}

// Each replica has its volume on its own node, and returns to it.
func TestExampleStatefulSet(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	apply(s, "statefulset.yaml", "storageClassName: "+csiClass, "storageClassName: "+harness.ClassDelayed)
	pods := []*corev1.Pod{awaitReady(s, "ledger-0"), awaitReady(s, "ledger-1")}
	if pods[0].Spec.NodeName == pods[1].Spec.NodeName {
		t.Errorf("both replicas are on %s", pods[0].Spec.NodeName)
	}
	for _, p := range pods {
		claim := claimNamed(s, "data-"+p.Name)
		wantOnlyOn(s, s.Bound(claim).Name, nodeNamed(s, p.Spec.NodeName))
	}
	end(s, pods[0])
	again := awaitReady(s, "ledger-0")
	if again.Spec.NodeName != pods[0].Spec.NodeName {
		t.Errorf("ledger-0 came back on %s, was on %s", again.Spec.NodeName, pods[0].Spec.NodeName)
	}
	path := hostPath(nodeNamed(s, again.Spec.NodeName), harness.PVName(claimNamed(s, "data-ledger-0")), "index.html")
	s.Eventually("both starts", func() error {
		got, err := os.ReadFile(path)
		if err == nil && string(got) != "ledger-0\nledger-0\n" {
			err = fmt.Errorf("%s: %q, want a line for each start", path, got)
		}
		return err
	})
}

func claimNamed(s *harness.Scene, name string) *corev1.PersistentVolumeClaim {
	s.Helper()
	return s.Read(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}})
}

// The label is what affinities match, and it need not be the node's name.
func hostnameLabelThatDiffers(t *testing.T, s *harness.Scene) {
	relabel := func(hostname string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, corev1.LabelHostname, hostname)
		_, err := s.Client.CoreV1().Nodes().Patch(s.Context(), other.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(s, "label node", err)
		agent, err := podOf(s, other, agentSet)
		must(s, "agent", err)
		end(s, agent)
		awaitAgent(s, other)
	}
	const label = "a-label-that-differs"
	relabel(label)
	claim := s.Create(harness.Claim{Class: harness.ClassDelayed})
	p := pod{claim: claim.Name, script: "echo here >/data/file", hostname: label}.run(s)
	pv := s.Bound(claim)
	wantOnlyOn(s, pv.Name, other)
	terms := pv.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || !slices.Equal(terms[0].MatchExpressions[0].Values, []string{label}) {
		t.Errorf("affinity of the PV is %v, want %s", terms, label)
	}
	end(s, p)
	s.Delete(claim)
	s.Gone(pv.Name)
	relabel(other.Hostname)
}
