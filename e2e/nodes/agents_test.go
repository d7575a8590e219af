package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// What manifests/legacy calls things.
const (
	agentSet   = "hostpath-provisioner"
	agentLabel = "k8s-app=" + agentSet
)

// readyz asks the agent through the API server. The text is there also where the answer is no.
func readyz(s *harness.Scene, n *cluster.Node) (text string, err error) {
	p, err := podOf(s, n, agentSet)
	if err != nil {
		return "", err
	}
	return askPod(s, p, "readyz")
}

func askPod(s *harness.Scene, p *corev1.Pod, path string) (text string, err error) {
	path = fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9898/proxy/%s", p.Namespace, p.Name, path)
	body, err := s.Client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(s.Context())
	return string(body), err
}

// awaitAgent waits until the node's agent serves claims, and the kubelet knows.
func awaitAgent(s *harness.Scene, n *cluster.Node) (ready *corev1.Pod) {
	s.Helper()
	s.Eventually("agent of "+n.Name+" ready", func() (err error) {
		if text, err := readyz(s, n); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		if ready, err = podOf(s, n, agentSet); err == nil && !isReady(ready) {
			err = errors.New("the pod is not")
		}
		return err
	})
	return ready
}

// inspect is what the agent's program says of the node's pool.
func inspect(s *harness.Scene, n *cluster.Node) harness.Report {
	s.Helper()
	p, err := podOf(s, n, agentSet)
	must(s, "agent", err)
	return inspectIn(s, p)
}

// inspectIn is what the program says in a pod of the agent, of the one pool that its environment
// names.
func inspectIn(s *harness.Scene, p *corev1.Pod) (r harness.Report) {
	s.Helper()
	text, err := kubectl("", "-n", p.Namespace, "exec", p.Name, "--", "/hostpath-provisioner", "inspect", "-o", "json")
	must(s, "inspect", err)
	must(s, "read what inspect said", json.Unmarshal([]byte(text), &r))
	return r
}

// volumeOf is what the pool says of one volume, or nil.
func volumeOf(r harness.Report, name string) *harness.ReportVolume {
	for i := range r.Volumes {
		if r.Volumes[i].Name == name {
			return &r.Volumes[i]
		}
	}
	return nil
}

func TestAgentsPod(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	for _, n := range local.Nodes() {
		p := awaitAgent(s, n)
		security := p.Spec.Containers[0].SecurityContext
		if len(p.Spec.Containers) != 1 || security.Privileged == nil || *security.Privileged || p.Spec.HostPID || p.Spec.HostNetwork {
			t.Errorf("%s: the agent's pod is more than one unprivileged container: %+v", n.Name, p.Spec)
		}
		capabilities := []corev1.Capability{"DAC_OVERRIDE", "FOWNER", "LINUX_IMMUTABLE", "CHOWN"}
		if got := security.Capabilities; !slices.Equal(got.Add, capabilities) || !slices.Equal(got.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: capabilities %+v, want ALL dropped and %v", n.Name, got, capabilities)
		}
		text, err := readyz(s, n)
		if err != nil || !strings.Contains(text, "[+] pool /var/hpvolumes ok") || !strings.Contains(text, "[+] api ok") {
			t.Errorf("%s: readyz: %q, %v", n.Name, text, err)
		}
	}
}

// The kubelet makes the missing base directory for everybody to enter, and the agent may not change
// what it has not made. It says so. What the agent makes is its own.
func TestBaseDirectory(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	base := command(s, "stat", "-c", "%a", one.VolumesDir())
	warned := slices.ContainsFunc(inspect(s, one).Warnings, func(w string) bool {
		return strings.Contains(w, "users can enter /var/hpvolumes") && strings.Contains(w, "chmod 0700 /var/hpvolumes")
	})
	if open := strings.TrimSpace(base) != "700"; open != warned {
		t.Errorf("the base has mode %s; warned of it: %v", base, warned)
	}
	for _, dir := range []string{"", "records", "staging", "trash"} {
		path := hostPath(one, ".hostpath-provisioner", dir)
		if got := strings.TrimSpace(command(s, "stat", "-c", "%a %u", path)); got != "700 0" {
			t.Errorf("%s: mode and owner %s, want 700 0", path, got)
		}
	}
}

// Without a word of farewell, with claims half served: the next agent takes up each where it was
// left.
func TestAgentKilledAmongClaims(t *testing.T) {
	s := newScene(t)
	before, err := podOf(s, one, agentSet)
	must(s, "agent", err)
	var claims []*corev1.PersistentVolumeClaim
	claim := func() {
		claims = append(claims, s.Create(harness.Claim{Node: one.Name}))
		time.Sleep(100 * time.Millisecond)
	}
	for range 10 {
		claim()
	}
	_, err = kubectl("", "-n", harness.Namespace, "delete", "pod", before.Name, "--force", "--grace-period=0", "--wait=false")
	must(s, "delete agent", err)
	for end := time.Now().Add(soon); !agentReplaced(s, before) && time.Now().Before(end); {
		claim() // the first agent may live for seconds
	}
	for range 10 {
		claim()
	}
	after := awaitAgent(s, one)
	began := after.Status.ContainerStatuses[0].State.Running.StartedAt
	want, late := []string{}, 0
	for _, c := range claims {
		pv := s.Bound(c)
		want = append(want, pv.Name)
		if !pv.CreationTimestamp.Before(&began) {
			late++
		}
	}
	t.Logf("the second agent served %d of %d claims", late, len(claims))
	if after.UID == before.UID || late == 0 || late == len(claims) {
		t.Error("the agent was not killed in the middle of its work")
	}
	slices.Sort(want)
	got := s.Children(one.VolumesDir())
	got = slices.DeleteFunc(got, func(name string) bool { return !slices.Contains(want, name) && known(s, name) })
	if !slices.Equal(got, want) {
		t.Errorf("%s has the directories\n%q, want one for each PV:\n%q", one.Name, got, want)
	}
	if staged := s.Children(hostPath(one, ".hostpath-provisioner", "staging")); len(staged) != 0 {
		t.Errorf("staging holds %q, want nothing", staged)
	}
}

// agentReplaced reports whether the container of another agent than before runs on its node.
func agentReplaced(s *harness.Scene, before *corev1.Pod) bool {
	now, err := podOf(s, one, agentSet)
	return err == nil && now.UID != before.UID && len(now.Status.ContainerStatuses) > 0 && now.Status.ContainerStatuses[0].State.Running != nil
}

// known reports whether a PV has that name: another test's, or that of somebody who uses the
// cluster as well.
func known(s *harness.Scene, name string) bool { return s.IsGone(name) != nil }
