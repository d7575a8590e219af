package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// goneObjects are a class with the policy release, and the operator's settings with a short grace
// period.
const goneObjects = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nodegone, annotations: {hostpath-provisioner.kubevirt.io/node-gone: release}}
provisioner: kubevirt.io.hostpath-provisioner
parameters: {storagePool: local}
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hostpath-provisioner-settings, namespace: hostpath-provisioner}
data: {nodeGoneGrace: 2s}
`

// The recipe of docs/node-gone.md: a node dies under a StatefulSet, which then runs on the other
// node with an empty volume. The node comes back, and the volume that was released is an orphan
// there.
func TestNodeGone(t *testing.T) {
	t.Cleanup(func() { operatorAway(t, "operator") })
	s := newScene(t)
	goneInstall(s)
	t.Cleanup(func() { goneBack(s) })
	must(s, "cordon", goneKubectl("cordon", one.Name))
	apply(s, "statefulset.yaml", "replicas: 2", "replicas: 1", "storageClassName: "+csiClass, "storageClassName: nodegone")
	first := awaitReady(s, "ledger-0")
	lost := s.Bound(claimNamed(s, "data-ledger-0"))
	must(s, "uncordon", goneKubectl("uncordon", one.Name))
	goneRecorded(s, lost.Name)
	must(s, "stop the kubelet", other.StopKubelet())
	s.Eventually("not ready", func() error { return goneNotReady(s) })

	begin := time.Now()
	took := func(what string) { s.Logf("%s after %s", what, time.Since(begin).Round(100*time.Millisecond)) }
	must(s, "taint", goneKubectl("taint", "node", other.Name, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"))
	s.Eventually("the pod removed", func() error {
		p, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), "ledger-0", metav1.GetOptions{})
		if err == nil && p.UID == first.UID {
			err = fmt.Errorf("it is there: %v", p.DeletionTimestamp)
		}
		return err
	})
	took("the pod was removed")
	must(s, "delete the node", goneKubectl("delete", "node", other.Name))
	s.Gone(lost.Name)
	took("its PV was gone")
	again := awaitReady(s, "ledger-0")
	took("the pod ran on the other node")
	now := s.Bound(claimNamed(s, "data-ledger-0"))
	if again.Spec.NodeName != one.Name || now.Name == lost.Name {
		t.Errorf("it runs on %s with PV %s, want %s and another PV", again.Spec.NodeName, now.Name, one.Name)
	}
	if text, err := os.ReadFile(hostPath(one, filepath.Join("csi", now.Name), "index.html")); string(text) != "ledger-0\n" {
		t.Errorf("the new volume has %q, %v; want the line of this start alone", text, err)
	}

	goneBack(s)
	s.Eventually("orphan", func() error {
		for _, v := range inspectIn(s, awaitDriver(s, other)).Volumes {
			if v.Name == lost.Name && v.Orphan.Why != "" {
				return nil
			}
		}
		return errors.New("it is not reported")
	})
	if text, err := os.ReadFile(hostPath(other, filepath.Join("csi", lost.Name), "index.html")); string(text) != "ledger-0\n" {
		t.Errorf("the volume that was released has %q, %v", text, err)
	}
	must(s, "delete the StatefulSet", goneKubectl("-n", s.Namespace, "delete", "statefulset", "ledger"))
}

func goneKubectl(args ...string) error {
	_, err := kubectl("", args...)
	return err
}

// goneInstall has the operator in place of the agent.
func goneInstall(s *harness.Scene) {
	s.Helper()
	must(s, "delete the agent", goneKubectl("-n", harness.Namespace, "delete", "daemonset", agentSet, "--cascade=foreground"))
	operatorDefined(s)
	must(s, "apply the operator", goneKubectl("apply", "-k", filepath.Join(root, "manifests", "operator")))
	pools := strings.Replace(operatorResource, "pathConfig: {path: /var/hpvolumes}", "storagePools: [{name: local, path: /var/hpvolumes}]", 1)
	_, err := kubectl(pools+"---"+goneObjects, "apply", "-f", "-")
	must(s, "apply the resource", err)
	s.Cleanup(func() {
		if err := goneKubectl("delete", "storageclass", "nodegone"); err != nil {
			s.Error(err)
		}
	})
	operatorComplete(s)
	for _, n := range local.Nodes() {
		awaitDriver(s, n)
	}
}

// goneRecorded waits until the record names the PV on the disk, which the agent defers.
func goneRecorded(s *harness.Scene, pv string) {
	s.Helper()
	s.Eventually("bound on the disk", func() error {
		for _, v := range inspectIn(s, awaitDriver(s, other)).Volumes {
			if v.Name == pv && v.State == "bound" {
				return nil
			}
		}
		return errors.New("it is not")
	})
}

// goneNotReady returns nil if the other node is not ready.
func goneNotReady(s *harness.Scene) error {
	node, err := s.Client.CoreV1().Nodes().Get(s.Context(), other.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return errors.New("it is ready")
		}
	}
	return nil
}

// goneBack starts the kubelet of the other node, and removes the taint of the recipe if the node
// was not deleted.
func goneBack(s *harness.Scene) {
	s.Helper()
	must(s, "start the kubelet", other.StartKubelet())
	_, _ = kubectl("", "taint", "node", other.Name, "node.kubernetes.io/out-of-service-") // it may have none
	_, _ = kubectl("", "uncordon", one.Name)                                              // as above
	must(s, "node", other.AwaitReady(context.Background()))                               // the test's own has ended
}
