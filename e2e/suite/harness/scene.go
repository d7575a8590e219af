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

// Scene is one test's part of the cluster: a namespace, and names that no other test uses. Its
// methods end the test if they fail.
type Scene struct {
	TB
	*Env
	// Name is the prefix of the names of all objects without a namespace.
	Name string
	// Namespace holds the test's claims and pods.
	Namespace string

	thaws []func()        // of the disks that the test froze
	loops map[string]bool // loop devices that LoopOn attached and Detach did not detach
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Scene creates a scene. Its objects are not deleted, because the cluster ends with the tests.
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

// Node is a Node object without a kubelet, and the path of its agent's pool.
type Node struct {
	Name, Hostname, Pool string
}

// Node creates a node, and returns it with a path for its pool, which the agent creates.
func (s *Scene) Node(suffix string) Node {
	s.Helper()
	return s.NodeNamed(s.Name+"-node-"+suffix, "")
}

// NodeNamed creates a node with that name and hostname label; no hostname means the name. It has
// the label that a kubelet sets when a CSI driver registers, unless the name is too long for a
// label.
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

// KnowsDriver creates the node's CSINode, as the kubelet does when the CSI driver registers.
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

// Path returns a path of this test that does not exist yet, in a directory that does.
func (s *Scene) Path(kind, name string) string {
	s.Helper()
	path := filepath.Join(s.Dir, kind, s.Name, name)
	s.must("make directory", os.MkdirAll(filepath.Dir(path), 0o755))
	return path
}

// patience is how long Eventually waits. Tests share the machine with many others, so it is far
// longer than anything takes; only a test that fails waits that long.
const patience = 5 * time.Minute

// Eventually calls ask until it returns nil, and ends the test with the last error if it never
// does. It tests no promise about time; see Within.
func (s *Scene) Eventually(what string, ask func() error) {
	s.Helper()
	s.Within(patience, what, ask)
}

// Within calls ask until it returns nil, and ends the test after that time, in which the agent
// guarantees a result. It asks less often the longer it has waited.
func (s *Scene) Within(within time.Duration, what string, ask func() error) {
	s.Helper()
	first := time.Now()
	end := first.Add(within)
	for {
		begin := time.Now()
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("%s: not within %s: %v", what, within, err)
		}
		rest(min(50*time.Millisecond+time.Since(first)/20, 250*time.Millisecond), begin)
	}
}

// rest sleeps between two calls of ask: at least shortest, and twice as long as the call that began
// at begin took, so that tests that wait leave the machine to others.
func rest(shortest time.Duration, begin time.Time) {
	time.Sleep(min(max(shortest, 2*time.Since(begin)), time.Second))
}

// Context returns the test's context.
func (s *Scene) Context() context.Context { return s.TB.Context() }

func (s *Scene) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}
