package nodes

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// awaitDriver waits until the node's driver is ready for the kubelet and registered with it.
func awaitDriver(s *harness.Scene, n *cluster.Node) (ready *corev1.Pod) {
	s.Helper()
	s.Eventually("driver of "+n.Name+" ready and registered", func() (err error) {
		if ready, err = podOf(s, n, csiSet); err == nil && !isReady(ready) {
			err = errors.New("the pod is not ready")
		}
		return errors.Join(err, isRegistered(s, n))
	})
	return ready
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

// capacities returns what each node has available to the class. The error is that of a node without
// exactly one object.
func capacities(s *harness.Scene) (map[string]storagev1.CSIStorageCapacity, error) {
	list, err := s.Client.StorageV1().CSIStorageCapacities(harness.Namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]storagev1.CSIStorageCapacity{}
	for _, c := range list.Items {
		if node := c.NodeTopology.MatchLabels[csiTopology]; c.StorageClassName == csiClass {
			if _, twice := found[node]; twice {
				return nil, fmt.Errorf("node %s has two objects: %s is one", node, c.Name)
			}
			found[node] = c
		}
	}
	if len(found) != 2 || found[one.Name].Name == "" || found[other.Name].Name == "" {
		return nil, fmt.Errorf("objects for %v, want one for each node", found)
	}
	return found, nil
}

// Kubernetes knows the driver on both nodes, and what each has available; those objects go with the
// DaemonSet.
func csiRegistered(t *testing.T, s *harness.Scene) {
	for _, n := range local.Nodes() {
		s.Eventually("registered", func() error { return isRegistered(s, n) })
		node, err := s.Client.CoreV1().Nodes().Get(s.Context(), n.Name, metav1.GetOptions{})
		if err != nil || node.Labels[csiTopology] != n.Name {
			t.Errorf("%s: labels %v, %v; want %s", n.Name, node.Labels, err, csiTopology)
		}
	}
	var found map[string]storagev1.CSIStorageCapacity
	s.Eventually("capacity of both nodes", func() (err error) {
		found, err = capacities(s)
		return err
	})
	for node, c := range found {
		if c.Capacity == nil || c.MaximumVolumeSize == nil || c.Capacity.Sign() <= 0 || c.Capacity.Cmp(*c.MaximumVolumeSize) != 0 {
			t.Errorf("%s: capacity %v, maximum %v; want the same, above zero", node, c.Capacity, c.MaximumVolumeSize)
		}
		if o := c.OwnerReferences; len(o) != 1 || o[0].Kind != "DaemonSet" || o[0].Name != csiSet {
			t.Errorf("%s: owned by %v, want the DaemonSet", node, o)
		}
	}
	text, err := kubectl("", "-n", harness.Namespace, "get", "csistoragecapacities,csinodes")
	must(s, "show them", err)
	t.Logf("\n%s", text)
}

// What the pod says of itself after all of that: ready for the API server, the scheduler and the
// kubelet, and with the pool that it was given.
func csiServes(t *testing.T) {
	s := &harness.Scene{TB: t, Env: env}
	for _, n := range local.Nodes() {
		p := awaitDriver(s, n)
		if len(p.Spec.Containers) != 1 {
			t.Errorf("%s: %d containers, want one", n.Name, len(p.Spec.Containers))
		}
		text, err := askPod(s, p, "readyz")
		for _, line := range []string{"[+] api ok", "[+] capacity ok", "[+] pool /var/hpvolumes/csi ok", "[+] kubelet ok"} {
			if err != nil || !strings.Contains(text, line+"\n") {
				t.Errorf("%s: readyz: %q, %v; want %q", n.Name, text, err, line)
			}
		}
		text, err = askPod(s, p, "metrics")
		for _, series := range []string{`kubevirt_hpp_pool_ready{pool="local"} 1`, "kubevirt_hpp_csi_call_duration_seconds_count{", "kubevirt_hpp_persistentvolumeclaim_provision_total{"} {
			if err != nil || !strings.Contains(text, "\n"+series) {
				t.Errorf("%s: metrics have no %q (%v):\n%s", n.Name, series, err, text)
			}
		}
		if r := inspectIn(s, p); r.Pool.Path != "/var/hpvolumes/csi" || !r.Pool.Held {
			t.Errorf("%s: inspect without a directory says %+v", n.Name, r.Pool)
		}
		t.Logf("memory of the agent of %s: %s", n.Name, memory(s, pidOf(s, n, p)))
	}
}

// memory is what the kernel says of a process's: at the most, now, and of that what is no file.
func memory(s *harness.Scene, pid int) string {
	s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(s, "read status", err)
	return strings.Join(regexp.MustCompile(`(?m)^(VmHWM|VmRSS|RssAnon):.*$`).FindAllString(string(status), -1), ", ")
}

// pidOf is the process of the pod's first container, as this machine sees it.
func pidOf(s *harness.Scene, n *cluster.Node, p *corev1.Pod) int {
	s.Helper()
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	tasks, err := onNode(n, "ctr", "-n", "k8s.io", "task", "ls")
	must(s, "list tasks", err)
	for line := range strings.Lines(tasks) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == id {
			pid, err := strconv.Atoi(f[1])
			must(s, "read task", err)
			return pid
		}
	}
	s.Fatalf("container %s of %s is not among\n%s", id, p.Name, tasks)
	return 0
}
