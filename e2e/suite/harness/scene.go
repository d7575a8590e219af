package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Scene is one test's part of the cluster: a namespace, and names that no other test uses. Its methods end the test
// when something does not come true.
type Scene struct {
	TB
	*Env
	// Name begins the names of everything that lies outside the namespace.
	Name string
	// Namespace holds the test's claims and pods.
	Namespace string

	thaws []func() // of the disks that the test froze
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Scene sets one up. Nothing is taken down in the cluster, which goes as a whole.
func (e *Env) Scene(t TB) *Scene {
	t.Helper()
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	if len(name) > 40 {
		name = strings.Trim(name[:40], "-")
	}
	name = fmt.Sprintf("%s-%d", name, e.counter.Add(1))
	s := &Scene{TB: t, Env: e, Name: name, Namespace: name}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := e.Client.CoreV1().Namespaces().Create(s.Context(), ns, metav1.CreateOptions{})
	s.must("create namespace", err)
	return s
}

// Node is a Node object without a kubelet, and the pool that its agent keeps.
type Node struct {
	Name, Hostname, Pool string
}

// Node makes a node and a path for its pool, on the disk of this machine; the agent makes the directory.
func (s *Scene) Node(suffix string) Node {
	s.Helper()
	return s.NodeNamed(s.Name+"-node-"+suffix, "")
}

// NodeNamed makes a node with that very name and hostname label; no hostname means the name. It has the label that a
// kubelet sets where a CSI driver registers, unless the name is longer than a label may be.
func (s *Scene) NodeNamed(name, hostname string) Node {
	s.Helper()
	labels := map[string]string{}
	if len(name) <= validation.LabelValueMaxLength {
		labels[TopologyNode] = name
	}
	node, err := s.Plane.CreateNode(s.Context(), name, hostname, labels)
	s.must("create node", err)
	s.homes.Store(types.UID(name), metav1.NamespaceDefault) // as kubelets name their nodes in events
	return Node{Name: name, Hostname: node.Labels[corev1.LabelHostname], Pool: s.Path("pools", "pool-"+name[len(name)-2:])}
}

// KnowsDriver makes the node's CSINode as the kubelet does where the CSI driver registers.
func (s *Scene) KnowsDriver(node Node) {
	s.Helper()
	_, err := s.Client.StorageV1().CSINodes().Create(s.Context(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: Driver, NodeID: node.Name, TopologyKeys: []string{TopologyNode},
		}}},
	}, metav1.CreateOptions{})
	s.must("create CSINode", err)
}

// Path is a path of this test that is not there yet, on the disk of this machine; its parent is.
func (s *Scene) Path(kind, name string) string {
	s.Helper()
	path := filepath.Join(s.Dir, kind, s.Name, name)
	s.must("make directory", os.MkdirAll(filepath.Dir(path), 0o755))
	return path
}

// least is how long Eventually waits at least. Tests share the machine with many others, and waiting costs nothing where
// all is well.
const least = time.Minute

// Eventually asks until the answer is nil, and ends the test with the last one when that takes too long. How long is no
// promise of the agent's; see Within.
func (s *Scene) Eventually(within time.Duration, what string, ask func() error) {
	s.Helper()
	s.Within(max(within, least), what, ask)
}

// Within asks until the answer is nil, and ends the test with the last one after that time, which the agent promises.
func (s *Scene) Within(within time.Duration, what string, ask func() error) {
	s.Helper()
	end := time.Now().Add(within)
	for {
		begin := time.Now()
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("%s: not within %s: %v", what, within, err)
		}
		rest(50*time.Millisecond, begin)
	}
}

// Always asks all the time long, and ends the test at the first answer that is not nil.
func (s *Scene) Always(span time.Duration, what string, ask func() error) {
	s.Helper()
	for start := time.Now(); time.Since(start) < span; {
		begin := time.Now()
		if err := ask(); err != nil {
			s.Fatalf("%s: after %s: %v", what, time.Since(start).Round(time.Millisecond), err)
		}
		rest(100*time.Millisecond, begin)
	}
}

// rest waits before somebody is asked once more who was asked at begin: shortest at least, and twice as long as the answer
// took, so that those who wait leave the machine to those who work.
func rest(shortest time.Duration, begin time.Time) {
	time.Sleep(min(max(shortest, 2*time.Since(begin)), time.Second))
}

// Context is the test's.
func (s *Scene) Context() context.Context { return s.TB.Context() }

func (s *Scene) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}
