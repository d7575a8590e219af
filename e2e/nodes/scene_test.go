package nodes

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// newScene is a namespace for one test. The cluster may outlive the tests, so it is taken down at the end, and the PVs of
// its claims must go with it.
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
	if err := s.Client.CoreV1().Namespaces().Delete(ctx, s.Namespace, metav1.DeleteOptions{}); err != nil {
		s.Errorf("delete namespace: %v", err)
	}
	s.Eventually("nothing left of "+s.Namespace, func() error {
		pvs, err := s.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pv := range pvs.Items {
			if pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == s.Namespace {
				return fmt.Errorf("PV %s is %s", pv.Name, pv.Status.Phase)
			}
		}
		ns, err := s.Client.CoreV1().Namespaces().Get(ctx, s.Namespace, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("the namespace is there: %v", ns.Status)
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

// said returns nil where an event of that reason, about that object and with these words, is younger than since.
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
