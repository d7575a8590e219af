package nodes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	singleNodeSet   = "hostpath-provisioner-single-node"
	singleNodeClass = "hostpath"
	// singleNodeBase is the directory of the volumes: nodes of this cluster have only
	// /var/hpvolumes of their own.
	singleNodeBase = "/var/hpvolumes/single-node"
)

// manifests/single-node with another directory, on the first node, and the second one cordoned: a
// claim without class, annotation and pod is bound at once, a pod writes into its volume, the
// volume grows and is deleted. While both nodes are schedulable, the next claim waits. The test is
// alone, because it cordons a node and makes a class the default.
func TestSingleNode(t *testing.T) {
	s := newScene(t)
	cordon(s, other, true)
	s.Cleanup(func() { cordon(s, other, false) })
	singleNodeDeploy(s)
	followSingleNode(s)

	claim := singleNodeClaim(s)
	pv := s.Bound(claim)
	name := s.Namespace + "-" + claim.Name + "-" + pv.Name
	directory := hostPath(one, "single-node", name)
	if pv.Spec.HostPath == nil || pv.Spec.HostPath.Path != filepath.Join(singleNodeBase, name) || *claim.Spec.StorageClassName != singleNodeClass {
		t.Errorf("class %s, source %+v", *claim.Spec.StorageClassName, pv.Spec.PersistentVolumeSource)
	}
	p := pod{claim: claim.Name, script: "touch /data/SUCCESS", hostname: one.Hostname}.run(s)
	if listed, err := onNode(one, "ls", filepath.Join(singleNodeBase, name)); err != nil || strings.TrimSpace(listed) != "SUCCESS" {
		t.Errorf("ls: %q, %v", listed, err)
	}
	_, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Patch(s.Context(), claim.Name, types.MergePatchType,
		[]byte(`{"spec":{"resources":{"requests":{"storage":"2Mi"}}}}`), metav1.PatchOptions{})
	must(s, "request", err)
	s.Eventually("grown", func() error {
		if c := s.Read(claim); c.Status.Capacity.Storage().String() != "2Mi" {
			return s.NotYet(claim.UID, "its capacity is %s", c.Status.Capacity.Storage())
		}
		return nil
	})

	begin := time.Now()
	cordon(s, other, false)
	s.Eventually("second node noticed", func() error {
		return said(s, "involvedObject.name", one.Name, "SeveralNodes", one.Name+", "+other.Name, begin)
	})
	waiting := singleNodeClaim(s)
	s.AwaitWarning(nil, waiting.UID, harness.ReasonFailed, one.Name+", "+other.Name, "remove or cordon")
	end(s, p)
	s.Delete(claim)
	s.Gone(pv.Name)
	if err := harness.Missing(directory); err != nil {
		t.Error(err)
	}
	cordon(s, other, true)
	served := s.Bound(waiting)
	s.Delete(waiting)
	s.Gone(served.Name)
}

// followSingleNode runs the commands of docs/single-node.md for a claim and a pod in the scene's namespace, with an image
// that the node has.
func followSingleNode(s *harness.Scene) {
	s.Helper()
	const example = "manifests/single-node/test-pod.yaml"
	text, err := os.ReadFile(filepath.Join(root, example))
	must(s, "read", err)
	own := filepath.Join(s.TempDir(), "pod.yaml")
	must(s, "write", os.WriteFile(own, publicImage.ReplaceAll(text, []byte("${1}image: "+cluster.BusyboxImage+"\n${1}imagePullPolicy: IfNotPresent")), 0o600))
	r := follow(s, "docs/single-node.md")
	r.replace = strings.NewReplacer("kubectl ", "kubectl -n "+s.Namespace+" ", example, own,
		"/var/kubernetes/default-", hostPath(one, "single-node", s.Namespace+"-"))
	for _, begins := range []string{"STORAGE=", "sed", "kubectl apply -k"} {
		r.skip(begins, "the form has another name beside the agent of the other tests")
	}
	r.run("kubectl apply -f")
	r.run("kubectl wait")
	want(s, r.run("ls"), "SUCCESS\n")
	r.run("kubectl delete")
}

// singleNodeClaim creates a claim as manifests/single-node/test-claim.yaml does: of the default
// class.
func singleNodeClaim(s *harness.Scene) *corev1.PersistentVolumeClaim {
	s.Helper()
	return s.Create(harness.Claim{Mode: corev1.ReadWriteMany, Size: "1Mi", Edit: func(c *corev1.PersistentVolumeClaim) {
		c.Spec.StorageClassName = nil
	}})
}

// cordon makes the node unschedulable, or schedulable.
func cordon(s *harness.Scene, n *cluster.Node, on bool) {
	s.Helper()
	verb := "cordon"
	if !on {
		verb = "uncordon"
	}
	if _, err := kubectl("", verb, n.Name); err != nil { // the test's context may have ended
		s.Error(err)
	}
}

// singleNodeDeploy applies the form until the test ends, beside the agent of the other tests. The
// agent of a node without volumes exits while there is another node, so only the one of the first
// node becomes ready.
func singleNodeDeploy(s *harness.Scene) {
	s.Helper()
	text, err := kubectl("", "kustomize", filepath.Join(root, "manifests", "single-node"))
	must(s, "render", err)
	text = strings.NewReplacer(
		"/var/kubernetes", singleNodeBase,
		"  name: hostpath-provisioner\n  namespace: hostpath-provisioner\n", "  name: "+singleNodeSet+"\n  namespace: hostpath-provisioner\n",
		"k8s-app: hostpath-provisioner\n", "k8s-app: "+singleNodeSet+"\n",
	).Replace(text)
	s.Cleanup(func() {
		if s.Failed() {
			logs, _ := kubectl("", "-n", harness.Namespace, "logs", "-l", "k8s-app="+singleNodeSet, "--prefix", "--tail=25")
			s.Logf("agents:\n%s", logs)
		}
		_, err := kubectl("", "-n", harness.Namespace, "delete", "daemonset/"+singleNodeSet, "storageclass/"+singleNodeClass, "clusterrole/"+singleNodeSet,
			"clusterrolebinding/"+singleNodeSet, "--ignore-not-found", "--cascade=foreground")
		if err != nil {
			s.Error(err)
		}
		for _, n := range []*cluster.Node{one, other} {
			if err := os.RemoveAll(filepath.Join(n.VolumesDir(), "single-node")); err != nil {
				s.Error(err)
			}
		}
	})
	_, err = kubectl(text, "apply", "-f", "-")
	must(s, "apply", err)
	s.Eventually("agent ready", func() error {
		p, err := podOf(s, one, singleNodeSet)
		if err == nil && !isReady(p) {
			err = errors.New("its pod is not")
		}
		return err
	})
}
