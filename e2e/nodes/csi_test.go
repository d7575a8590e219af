package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// What manifests/csi-sidecars calls things.
const (
	csiDriver   = "kubevirt.io.hostpath-provisioner"
	csiClass    = "hostpath-csi"
	csiSet      = "hostpath-provisioner-csi"
	csiLabel    = "k8s-app=" + csiSet
	csiTopology = "topology.hostpath.csi/node"
	csiSocket   = "/var/lib/kubelet/plugins/csi-hostpath/csi.sock"
	csiToldBy   = "/var/lib/kubelet/plugins_registry/" + csiDriver + "-reg.sock"
)

// The driver, the sidecar that its project releases, and the kubelet: deployed as a user would, and taken down again,
// because its pool lies inside the agent's, where the other tests break disks. No other test runs meanwhile.
func TestCSI(t *testing.T) {
	manifests := filepath.Join(root, "manifests")
	// All forms of the driver have the names of one.
	c := csiInstall{apply: []string{"-k", filepath.Join(manifests, "csi-sidecars")}, label: csiLabel}
	for _, file := range []string{"daemonset", "storageclass", "csidriver", "rbac", "serviceaccount"} {
		c.files = append(c.files, filepath.Join(manifests, "csi", file+".yaml"))
	}
	c.deploy(t)
	t.Run("Group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *harness.Scene){
			"registered": csiRegistered, "persists": csiPersists, "generic": csiGeneric, "inline": csiInline,
			"readonly": csiReadOnly, "fsgroup": csiFSGroup, "toobig": csiTooBig, "nospace": csiNoSpace,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newScene(t))
			})
		}
	})
	t.Run("restart", func(t *testing.T) { csiRestart(t, newScene(t)) })
	t.Run("sockets", func(t *testing.T) { csiSockets(t, newScene(t)) })
	t.Run("permitted", func(t *testing.T) { csiPermitted(t, c.label) })
}

// The sidecar logs what it was not allowed to do, and goes on as well as it can.
func csiPermitted(t *testing.T, label string) {
	logs, err := kubectl("", "-n", harness.Namespace, "logs", "-l", label, "-c", "csi-provisioner", "--tail=-1")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(logs) {
		if strings.Contains(line, "forbidden") {
			t.Errorf("the ClusterRole or the Role is too small: %s", line)
		}
	}
}

// csiInstall is one way to deploy the driver.
type csiInstall struct {
	apply []string // kubectl's words for all of it
	files []string // what is deleted again, in this order
	label string   // that its pods have, and no others
}

// deploy puts the driver onto the nodes for as long as the test runs.
func (c csiInstall) deploy(t *testing.T) {
	t.Helper()
	program, err := cluster.BuildProvisioner(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	loadProgram(t, cluster.ProvisionerImage, program)
	t.Cleanup(func() { c.undeploy(t) })
	for _, args := range [][]string{
		append([]string{"apply"}, c.apply...),
		{"-n", harness.Namespace, "rollout", "status", "daemonset/" + csiSet, "--timeout=90s"},
	} {
		if _, err := kubectl("", args...); err != nil {
			t.Fatal(err)
		}
	}
}

// loadProgram puts an image of one static program onto the nodes.
func loadProgram(t *testing.T, name, program string) {
	t.Helper()
	image, err := cluster.BinaryImage(name, program)
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err = errors.Join(err, cluster.WriteImage(image, archive)); err != nil {
		t.Fatal(err)
	}
	if err := local.Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}

// undeploy leaves the namespace, which is the agent's too.
func (c csiInstall) undeploy(t *testing.T) {
	if t.Failed() {
		logs, _ := kubectl("", "-n", harness.Namespace, "logs", "-l", c.label, "--all-containers", "--prefix", "--tail=60")
		pods, _ := kubectl("", "-n", harness.Namespace, "describe", "pod", "-l", c.label)
		t.Logf("%s\ndrivers:\n%s", pods, logs)
	}
	for _, file := range c.files {
		if _, err := kubectl("", "delete", "--cascade=foreground", "-f", file); err != nil {
			t.Error(err)
		}
	}
	for _, n := range local.Nodes() {
		if _, err := onNode(n, "rm", "-r", "/var/hpvolumes/csi"); err != nil {
			t.Error(err)
		}
		for _, socket := range []string{csiSocket, csiToldBy} {
			if _, err := onNode(n, "test", "!", "-e", socket); err != nil {
				t.Errorf("the driver stopped and left a socket: %v", err)
			}
		}
	}
}

// isRegistered returns nil where the node's kubelet has the driver.
func isRegistered(s *harness.Scene, n *cluster.Node) error {
	node, err := s.Client.StorageV1().CSINodes().Get(s.Context(), n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, d := range node.Spec.Drivers {
		if d.Name == csiDriver && d.NodeID == n.Name && slices.Equal(d.TopologyKeys, []string{csiTopology}) {
			return nil
		}
	}
	return fmt.Errorf("CSINode %s has %+v", n.Name, node.Spec.Drivers)
}

// Kubernetes knows the driver on both nodes, and what each can still promise; those objects go with the DaemonSet.
func csiRegistered(t *testing.T, s *harness.Scene) {
	for _, n := range local.Nodes() {
		s.Eventually(soon, "registered", func() error { return isRegistered(s, n) })
	}
	s.Eventually(soon, "capacity of both nodes", func() error {
		list, err := s.Client.StorageV1().CSIStorageCapacities(harness.Namespace).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, c := range list.Items {
			if c.StorageClassName != csiClass {
				continue
			}
			if c.Capacity == nil || c.MaximumVolumeSize == nil || c.Capacity.Sign() <= 0 || c.Capacity.Cmp(*c.MaximumVolumeSize) != 0 {
				t.Errorf("capacity %v, maximum %v; want the same, above zero", c.Capacity, c.MaximumVolumeSize)
			}
			if o := c.OwnerReferences; len(o) != 1 || o[0].Kind != "DaemonSet" || o[0].Name != csiSet {
				t.Errorf("owned by %v, want the DaemonSet", o)
			}
			found[c.NodeTopology.MatchLabels[csiTopology]] = true
		}
		if !found[one.Name] || !found[other.Name] || len(found) != 2 {
			return fmt.Errorf("objects for %v", found)
		}
		return nil
	})
}

// Running pods do not notice that the driver goes and comes; those that end and start afterwards do so.
func csiRestart(t *testing.T, s *harness.Scene) {
	claim := csiClaim(s)
	const script = "while sleep 0.2; do date >>/data/lines; done & until [ -s /data/lines ]; do sleep 0.1; done"
	p := pod{claim: claim.Name, hostname: other.Hostname, script: script}.run(s)
	lines := csiPath(other, s.Bound(claim).Name, "lines")
	old, err := podOf(s, other, csiSet)
	must(s, "driver", err)
	end(s, old)
	s.Eventually(soon, "driver ready and registered", func() error {
		now, err := podOf(s, other, csiSet)
		if err == nil && !isReady(now) {
			err = errors.New("the pod is not ready")
		}
		if err == nil {
			err = isRegistered(s, other)
		}
		return err
	})
	before, err := os.Stat(lines)
	must(s, "look at the file", err)
	s.Eventually(10*time.Second, "the pod still writes", func() error {
		if now, err := os.Stat(lines); err != nil || now.Size() == before.Size() {
			return fmt.Errorf("%d bytes, %w", before.Size(), err)
		}
		return nil
	})
	end(s, p)
	again := pod{claim: claim.Name, script: "test -s /data/lines"}.run(s)
	end(s, again)
	s.Delete(claim)
	s.Gone("pvc-" + string(claim.UID))
	csiGone(s, "pvc-"+string(claim.UID))
}

// Somebody clears the kubelet's directories: the sockets come back, and the kubelet takes the driver again.
func csiSockets(t *testing.T, s *harness.Scene) {
	for _, socket := range []string{csiToldBy, csiSocket} {
		_, err := onNode(one, "rm", socket)
		must(s, "remove socket", err)
		s.Eventually(soon, socket+" is there again", func() error {
			_, err := onNode(one, "test", "-S", socket)
			return err
		})
	}
	// The kubelet forgets the driver with the socket, and learns of it with the next.
	s.Eventually(2*time.Minute, "registered again", func() error { return isRegistered(s, one) })
	claim := csiClaim(s)
	p := pod{claim: claim.Name, hostname: one.Hostname, script: "touch /data/file"}.run(s)
	if p.Spec.NodeName != one.Name {
		t.Errorf("the pod is on %s", p.Spec.NodeName)
	}
}
