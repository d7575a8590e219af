package nodes

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// agents are those that deploy put onto the nodes: several tests use them at once, and one at a
// time replaces them.
var agents sync.RWMutex

// withAgents runs the test beside others, but not beside one that replaces the agents.
func withAgents(t *testing.T) {
	t.Helper()
	t.Parallel()
	agents.RLock()
	t.Cleanup(agents.RUnlock)
}

// replacingAgents runs the test beside those that do without the agents, alone among the others.
func replacingAgents(t *testing.T) {
	t.Helper()
	t.Parallel()
	agents.Lock()
	t.Cleanup(agents.Unlock)
}

// newScene is a namespace for one test. The cluster may outlive the tests, so it is taken down at
// the end, and the PVs of its claims must go with it.
func newScene(t *testing.T) *harness.Scene {
	t.Helper()
	name := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "nodes-" + name + "-"}}
	made, err := env.Client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	s := &harness.Scene{TB: t, Env: env, Name: made.Name, Namespace: made.Name}
	t.Cleanup(func() { leave(s) })
	return s
}

func leave(s *harness.Scene) {
	ctx := context.Background() // the test's own has ended
	if s.Failed() {
		text, _ := kubectl("", "-n", s.Namespace, "describe", "pvc,pod")
		logs, _ := kubectl("", "-n", harness.Namespace, "logs", "-l", agentLabel, "--prefix", "--tail=25")
		s.Logf("%s\nagents:\n%s", text, logs)
	}
	everything, core := metav1.ListOptions{}, s.Client.CoreV1()
	err := errors.Join(core.Namespaces().Delete(ctx, s.Namespace, metav1.DeleteOptions{}), // nothing is made in it any more
		core.Pods(s.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, everything),
		core.PersistentVolumeClaims(s.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, everything))
	if err != nil {
		s.Errorf("delete namespace: %v", err)
	}
	// The namespace is not awaited: its controller looks again after five seconds, and later each
	// time.
	s.Eventually("no pod and PV left of "+s.Namespace, func() error {
		pvs, err := core.PersistentVolumes().List(ctx, everything)
		if err != nil {
			return err
		}
		for _, pv := range pvs.Items {
			if pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == s.Namespace {
				return fmt.Errorf("PV %s is %s", pv.Name, pv.Status.Phase)
			}
		}
		pods, err := core.Pods(s.Namespace).List(ctx, everything)
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("pod %s is there", pods.Items[0].Name)
		}
		return err
	})
}

func must(s *harness.Scene, what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// hostPath is where the machine has a volume of the node.
func hostPath(n *cluster.Node, volume string, names ...string) string {
	return filepath.Join(append([]string{n.VolumesDir(), volume}, names...)...)
}

// wantOnlyOn checks that one node has the volume's directory, and the other has not.
func wantOnlyOn(s *harness.Scene, volume string, has *cluster.Node) {
	s.Helper()
	for _, n := range local.Nodes() {
		err := harness.Missing(hostPath(n, volume))
		if n.Name == has.Name {
			err = harness.Exists(hostPath(n, volume))
		}
		if err != nil {
			s.Errorf("%s: %v", n.Name, err)
		}
	}
}

// nodeNamed is the cluster's node of that name.
func nodeNamed(s *harness.Scene, name string) *cluster.Node {
	s.Helper()
	n, err := local.Node(name)
	must(s, "node", err)
	return n
}

// command runs a command of this machine.
func command(s *harness.Scene, name string, args ...string) string {
	s.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	must(s, fmt.Sprintf("%s %v: %s", name, args, out), err)
	return string(out)
}

// onNode runs a command in the node's mount namespace.
func onNode(n *cluster.Node, argv ...string) (string, error) {
	cmd, err := n.Command(context.Background(), argv...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %v: %w: %s", n.Name, argv, err, out)
	}
	return string(out), err
}

// said returns nil where an event of that reason, about that object and with these words, is
// younger than since.
func said(s *harness.Scene, field, object, reason, words string, since time.Time) error {
	list, err := s.Client.CoreV1().Events(metav1.NamespaceAll).List(context.Background(), metav1.ListOptions{
		FieldSelector: field + "=" + object + ",reason=" + reason,
	})
	if err != nil {
		return err
	}
	var all []string
	for _, e := range list.Items {
		at := e.LastTimestamp.Time
		if at.IsZero() {
			at = e.EventTime.Time // the scheduler counts in another way
		}
		if at.Before(since.Truncate(time.Second)) {
			continue
		}
		if strings.Contains(e.Message, words) {
			return nil
		}
		all = append(all, e.Message)
	}
	return fmt.Errorf("no event %s about %s with %q; there are %q", reason, object, words, all)
}
