package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

var publicImage = regexp.MustCompile(`(?m)^( *)image: busybox:.*$`)

// apply applies an example as it is, but for the image: there is no registry to pull from. The
// words that are given in pairs are replaced too, each by the next.
func apply(s *harness.Scene, name string, replace ...string) {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(root, "manifests", "examples", name))
	must(s, "read example", err)
	text := publicImage.ReplaceAllString(strings.NewReplacer(replace...).Replace(string(data)), "${1}image: "+cluster.BusyboxImage+"\n${1}imagePullPolicy: IfNotPresent")
	_, err = kubectl(text, "-n", s.Namespace, "apply", "-f", "-")
	must(s, name, err)
}

func TestExampleClaimAndPod(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	apply(s, "claim-and-pod.yaml")
	p := awaitReady(s, "diary")
	n := nodeNamed(s, p.Spec.NodeName)
	claim := claimNamed(s, "diary")
	wantOnlyOn(s, s.Bound(claim).Name, n)
	s.Eventually("a line in the diary", func() error {
		data, err := os.ReadFile(hostPath(n, harness.PVName(claim), "diary"))
		if err == nil && len(data) == 0 {
			err = fmt.Errorf("it is empty")
		}
		return err
	})
}

func TestExampleClaimOnNode(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	apply(s, "claim-on-node.yaml")
	wantOnlyOn(s, s.Bound(claimNamed(s, "on-node-01")).Name, one)
}

// A Released PV keeps its data until an administrator decides.
func TestExampleRetainClass(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	const class = "hostpath-provisioner-retain"
	apply(s, "retain-class.yaml")
	s.Cleanup(func() { _, _ = kubectl("", "delete", "storageclass", class) })
	claim := s.Create(harness.Claim{Class: class})
	p := pod{claim: claim.Name, script: "echo kept >/data/file", hostname: one.Hostname}.run(s)
	volume := s.Bound(claim).Name
	end(s, p)
	s.Delete(claim)
	s.Eventually("released", func() error {
		if phase := s.PV(volume).Status.Phase; phase != "Released" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	if got, err := os.ReadFile(hostPath(one, volume, "file")); string(got) != "kept\n" {
		t.Errorf("on the node: %q, %v", got, err)
	}
	s.PatchPV(volume, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	s.Gone(volume)
	if err := harness.Missing(hostPath(one, volume)); err != nil {
		t.Error(err)
	}
}

// The nodes share this machine's other directories, so another path would be one and the same for
// both. The API server judges what the overlay makes; nothing is changed.
func TestExampleOtherPath(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	before, err := s.Client.AppsV1().DaemonSets(harness.Namespace).Get(s.Context(), "hostpath-provisioner", metav1.GetOptions{})
	must(s, "read DaemonSet", err)
	out, err := kubectl("", "apply", "--dry-run=server", "-o", "yaml", "-k", filepath.Join(root, "manifests", "examples", "other-path"))
	must(s, "other-path", err)
	if n := strings.Count(out, "/data/volumes"); n < 3 || strings.Contains(out, "mountPath: /var/hpvolumes") {
		t.Errorf("the overlay says /data/volumes %d times, want 3 and no mount of the usual path:\n%s", n, out)
	}
	after, err := s.Client.AppsV1().DaemonSets(harness.Namespace).Get(s.Context(), "hostpath-provisioner", metav1.GetOptions{})
	must(s, "read DaemonSet", err)
	if before.Generation != after.Generation {
		t.Error("the DaemonSet was changed")
	}
}
