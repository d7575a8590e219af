package nodes

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	localPathSet   = "hostpath-provisioner-local-path"
	localPathClass = "local-path"
	// localPathBase is the base directory: nodes of this cluster have only /var/hpvolumes of their
	// own.
	localPathBase = "/var/hpvolumes/local-path"
)

// Each kustomization renders with kubectl, and the API server accepts the objects of
// manifests/local-path.
func TestKustomizations(t *testing.T) {
	t.Parallel()
	manifests := filepath.Join(root, "manifests")
	rendered := 0
	err := filepath.WalkDir(manifests, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "kustomization.yaml" {
			return err
		}
		dir := filepath.Dir(path)
		text, err := kubectl("", "kustomize", dir)
		if parent := filepath.Base(filepath.Dir(dir)); err == nil && (filepath.Base(dir) == "local-path" || parent == "local-path") {
			_, err = kubectl(text, "apply", "--dry-run=server", "-f", "-")
		}
		if err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		rendered++
		return nil
	})
	if err != nil || rendered < 20 {
		t.Errorf("%d kustomizations, %v", rendered, err)
	}
}

// The overlay for k3s, with another directory, after k3s has deleted its class: a PV of before
// keeps its data and its pod, a claim that was made without a class is served, new volumes are
// hostPath and local, and an agent whose pod is killed goes on.
func TestLocalPath(t *testing.T) {
	withAgents(t) // it has the account of the other form
	s := newScene(t)
	old, path := localPathOld(s)
	p := pod{claim: old.Name, hostname: one.Hostname, script: "cat /data/file; echo more >>/data/file"}.create(s)
	// When its provisioner is disabled, k3s deletes the class; a claim that is made then waits for
	// the overlay's class.
	_, err := kubectl("", "delete", "storageclass", localPathClass)
	must(s, "delete the class", err)
	between := s.Create(harness.Claim{Class: localPathClass})
	waiting := pod{claim: between.Name, script: "echo new >/data/file", hostname: other.Hostname}.create(s)
	localPathDeploy(s)
	end(s, awaitReady(s, waiting.Name))
	s.Eventually("adopted", func() error {
		if pv := s.PV(harness.PVName(old)); pv.Annotations[harness.AnnPool] == "" || pv.Labels[harness.LabelNode] != one.Name {
			return s.NotYet(pv.UID, "labels %v, annotations %v", pv.Labels, pv.Annotations)
		}
		return nil
	})
	if got := output(s, awaitReady(s, p.Name)); got != "precious\n" {
		t.Errorf("the pod reads %q", got)
	}

	claims := []*corev1.PersistentVolumeClaim{between}
	for _, kind := range []string{"hostPath", "local"} {
		claim := s.Create(harness.Claim{Class: localPathClass, Edit: func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volumeType", kind)
		}})
		user := pod{claim: claim.Name, script: "echo from $(id -u) >/data/file", hostname: other.Hostname, user: 1000}.run(s)
		pv := s.Bound(claim)
		if (pv.Spec.Local != nil) != (kind == "local") {
			t.Errorf("volumeType %s: source %+v", kind, pv.Spec.PersistentVolumeSource)
		}
		file := hostPath(other, "local-path", harness.PVName(claim)+"_"+s.Namespace+"_"+claim.Name, "file")
		if data, err := os.ReadFile(file); err != nil || string(data) != "from 1000\n" {
			t.Errorf("volumeType %s: %q, %v", kind, data, err)
		}
		end(s, user)
		claims = append(claims, claim)
	}
	agent, err := podOf(s, other, localPathSet)
	must(s, "agent", err)
	must(s, "kill agent", s.Client.CoreV1().Pods(agent.Namespace).Delete(s.Context(), agent.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	end(s, p)
	for _, claim := range append(claims, old) {
		s.Delete(claim)
		s.Gone(harness.PVName(claim))
	}
	if err := harness.Missing(path); err != nil {
		t.Error(err)
	}
	pods, err := s.Client.CoreV1().Pods(s.Namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("helper pods: %d pods, %v", len(pods.Items), err)
	}
}

// localPathOld is a bound claim of before on the first node, with its data, and its directory on
// this machine.
func localPathOld(s *harness.Scene) (claim *corev1.PersistentVolumeClaim, path string) {
	s.Helper()
	class, err := os.ReadFile(filepath.Join(root, "manifests", "local-path", "k3s", "storageclass.yaml"))
	must(s, "read class", err)
	_, err = kubectl(notDefault(string(class)), "apply", "-f", "-")
	must(s, "class", err)
	claim = s.Create(harness.Claim{Name: "old", Class: localPathClass})
	name := harness.PVName(claim) + "_" + claim.Namespace + "_" + claim.Name
	path = hostPath(one, "local-path", name)
	must(s, "make directory", os.MkdirAll(path, 0o777))
	must(s, "write data", os.WriteFile(filepath.Join(path, "file"), []byte("precious\n"), 0o666))
	create := corev1.HostPathDirectoryOrCreate
	_, err = s.Client.CoreV1().PersistentVolumes().Create(s.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: harness.PVName(claim), Annotations: map[string]string{harness.AnnProvisionedBy: "rancher.io/local-path"}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, StorageClassName: localPathClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(localPathBase, name), Type: &create},
			},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{one.Hostname}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	must(s, "save PV", err)
	return claim, path
}

// notDefault leaves the cluster's claims without a class alone.
func notDefault(manifest string) string {
	return strings.ReplaceAll(manifest, `is-default-class: "true"`, `is-default-class: "false"`)
}

// localPathDeploy applies the overlay until the test ends.
func localPathDeploy(s *harness.Scene) {
	s.Helper()
	text, err := kubectl("", "kustomize", filepath.Join(root, "manifests", "local-path", "k3s"))
	must(s, "render", err)
	s.Cleanup(func() {
		if s.Failed() {
			logs, _ := kubectl("", "-n", harness.Namespace, "logs", "-l", "k8s-app="+localPathSet, "--prefix", "--tail=25")
			s.Logf("agents:\n%s", logs)
		}
		_, err := kubectl("", "-n", harness.Namespace, "delete", "daemonset/"+localPathSet, "configmap/local-path-config", "storageclass/"+localPathClass,
			"--ignore-not-found", "--cascade=foreground")
		if err != nil {
			s.Error(err)
		}
		for _, n := range []*cluster.Node{one, other} {
			if err := os.RemoveAll(filepath.Join(n.VolumesDir(), "local-path")); err != nil {
				s.Error(err)
			}
		}
	})
	_, err = kubectl(notDefault(strings.ReplaceAll(text, "/var/lib/rancher/k3s/storage", localPathBase)), "apply", "-f", "-")
	must(s, "apply", err)
	begin := time.Now()
	_, err = kubectl("", "-n", harness.Namespace, "rollout", "status", "daemonset/"+localPathSet, "--timeout=180s")
	must(s, fmt.Sprintf("agents ready after %s", time.Since(begin).Round(time.Second)), err)
}
