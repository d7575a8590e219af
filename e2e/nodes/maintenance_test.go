package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The drills of docs/node-maintenance.md, with a StatefulSet on the node.
func TestNodeMaintenance(t *testing.T) {
	t.Cleanup(func() {
		undeployCSI(t)
		redeploy(t)
	})
	csiAlone.deploy(t)
	s := newScene(t)
	must(s, "cordon", goneKubectl("cordon", one.Name))
	s.Cleanup(func() { _, _ = kubectl("", "uncordon", one.Name) })
	apply(s, "statefulset.yaml", "replicas: 2", "replicas: 1")
	awaitReady(s, "ledger-0")
	must(s, "uncordon", goneKubectl("uncordon", one.Name))
	r := follow(s, "docs/node-maintenance.md")
	for _, file := range []string{"from.sums", "to.sums"} {
		t.Cleanup(func() { _ = os.Remove(filepath.Join(root, file)) })
	}
	r.values = map[string]string{"NODE": other.Name, "TARGET": one.Hostname, "NAMESPACE": s.Namespace, "STATEFULSET": "ledger",
		"SELECTOR": "app=ledger", "CLAIM": "data-ledger-0", "CLASS": csiClass, "SIZE": "1Gi", "REPLICAS": "1",
		"IMAGE": cluster.BusyboxImage, "POLICY": "keep"}
	r.maintenanceRestart()
	r.maintenanceMove()
	r.maintenanceReplace()
	want(s, r.run("kubectl get pv -l"), "")
	r.skip("kubectl drain NODE", "the first command of the page is the same")
	r.skip("kubectl delete node NODE", "TestNodeRegistersAgain deletes it")
	r.end()
	must(s, "delete the StatefulSet", goneKubectl("-n", s.Namespace, "delete", "statefulset", "ledger"))
}

// maintenanceRestart drains the node, ends all of it, and starts it again: the pod waits, and has
// its volume again. The other node is served meanwhile.
func (r *reader) maintenanceRestart() {
	s := r.Scene
	before := s.Bound(claimNamed(s, "data-ledger-0"))
	up := false
	s.Cleanup(func() { // other tests need the node
		if up {
			return
		}
		if err := errors.Join(other.Stop(), other.Start(context.Background()), goneKubectl("uncordon", other.Name),
			other.AwaitReady(context.Background())); err != nil {
			s.Error(err)
		}
	})
	r.run("kubectl drain NODE")
	s.Eventually("the pod waits for the node", func() error { return waits(s, "ledger-0") })

	must(s, "stop the node", other.Stop())
	s.Eventually("not ready", func() error { return goneNotReady(s) })
	end(s, pod{claim: csiClaim(s).Name, script: "echo meanwhile >/data/file", hostname: one.Hostname}.run(s))

	must(s, "start the node", other.Start(s.Context()))
	r.run("kubectl uncordon NODE")
	must(s, "node", other.AwaitReady(s.Context()))
	up = true
	if p := awaitReady(s, "ledger-0"); p.Spec.NodeName != other.Name {
		s.Errorf("the pod runs on %s, want %s", p.Spec.NodeName, other.Name)
	}
	after := s.Bound(claimNamed(s, "data-ledger-0"))
	if after.UID != before.UID {
		s.Errorf("the claim has PV %s (%s), and had %s (%s)", after.Name, after.UID, before.Name, before.UID)
	}
	ledger(s, other, after.Name, 2)
	if err := s.Unwarned(after.UID); err != nil {
		s.Errorf("the PV: %v", err)
	}
}

// waits returns nil once the scheduler has said that no node takes the pod.
func waits(s *harness.Scene, name string) error {
	p, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range p.Status.Conditions {
		if p.DeletionTimestamp == nil && c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return nil
		}
	}
	return fmt.Errorf("it is %s on %q: %v", p.Status.Phase, p.Spec.NodeName, p.Status.Conditions)
}

// ledger checks that the StatefulSet's pod has started that many times with the volume.
func ledger(s *harness.Scene, n *cluster.Node, volume string, starts int) {
	s.Helper()
	text, err := os.ReadFile(csiPath(n, volume, "index.html"))
	if want := strings.Repeat("ledger-0\n", starts); string(text) != want || err != nil {
		s.Errorf("the volume has %q, %v; want %q", text, err, want)
	}
}

// maintenanceMove moves the volume to the first node.
func (r *reader) maintenanceMove() {
	old := r.Bound(claimNamed(r.Scene, "data-ledger-0"))
	r.run("old=")
	r.run("kubectl patch pv $old")
	if policy := r.run("kubectl -n NAMESPACE get statefulset"); policy != "Retain\n" {
		r.Errorf("scaling would delete claims: %q", policy)
	}
	r.run("kubectl -n NAMESPACE patch statefulset") // as if it did
	for _, begins := range []string{"scale", "wait --for=delete", "apply", "wait --for=condition=Ready", "exec from -- tar"} {
		r.run("kubectl -n NAMESPACE " + begins)
	}
	for _, begins := range []string{"kubectl -n NAMESPACE exec from -- sh", "kubectl -n NAMESPACE exec to -- sh"} {
		r.run(begins)
	}
	want(r.Scene, r.run("test -s from.sums"), "same\n")
	r.run("kubectl -n NAMESPACE delete pod")
	r.run("new=")
	values, err := r.shell("echo old=$old; echo new=$new") // their claims are gone soon
	must(r.Scene, "values", err)
	r.set = strings.Fields(values)
	for _, begins := range []string{"patch pv $new", "-n NAMESPACE delete pvc", "patch pv $new --type merge", "wait pv/$new", "-n NAMESPACE scale"} {
		r.run("kubectl " + begins)
	}
	if p := awaitReady(r.Scene, "ledger-0"); p.Spec.NodeName != one.Name {
		r.Errorf("the pod runs on %s, want %s", p.Spec.NodeName, one.Name)
	}
	moved := r.PV(claimNamed(r.Scene, "data-ledger-0").Spec.VolumeName)
	if moved.Name == old.Name {
		r.Fatalf("the claim still has PV %s", old.Name)
	}
	ledger(r.Scene, one, moved.Name, 3)
	must(r.Scene, "the original", harness.Exists(csiPath(other, old.Name)))
	r.run("kubectl patch pv $new")
	r.run("kubectl patch pv $old")
	r.Gone(old.Name)
	csiGone(r.Scene, old.Name)
	ledger(r.Scene, one, moved.Name, 3)
}

// maintenanceReplace follows what the page has for a disk and for a machine: the node has no volume any
// more, and the class keeps its policy.
func (r *reader) maintenanceReplace() {
	if volumes := r.run("kubectl get pv -l"); strings.Contains(volumes, "pvc-") {
		r.Errorf("the node has volumes: %s", volumes)
	}
	for _, begins := range []string{"kubectl annotate --overwrite node", "kubectl -n hostpath-provisioner delete pod", "kubectl uncordon"} {
		r.skip(begins, "TestNodeGone of suite gives a pool up")
	}
	r.run("kubectl annotate --overwrite storageclass")
	r.run("kubectl uncordon NODE")
	r.run("kubectl annotate --overwrite storageclass")
}
