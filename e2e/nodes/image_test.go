package nodes

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The first step of an installation: the image is pushed, and one entry of an overlay makes a node
// run it.
func TestPushedImageRuns(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	s.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/storage/hostpath-provisioner"
	pushed := repository + ":v9"
	out, err := exec.Command("make", "-C", root, "--no-print-directory", "push", "IMAGE="+pushed, "VERSION=v9.9.9").CombinedOutput()
	must(s, "make push: "+string(out), err)
	if !strings.Contains(string(out), "pushed "+pushed+"@sha256:") {
		t.Errorf("make push printed %s", out)
	}
	for _, form := range []string{"csi", "legacy"} {
		got, err := manifestImage(overlay(s, form, repository, "v9"))
		if must(s, form, err); got != pushed {
			t.Errorf("manifests/%s runs %s, want %s", form, got, pushed)
		}
	}
	printsVersion(s, one, pushed, "v9.9.9")
}

// Manifests without an image of the user's own run nothing.
func TestPlaceholderIsNotPulled(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	repository, _, _ := strings.Cut(image, ":")
	p := runImage(s, repository+":never-loaded", one) // the tag of the manifests is loaded for the other tests
	s.Eventually("an error of the pull", func() error {
		p, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
			return fmt.Errorf("pod %+v", p.Status)
		}
		if w := p.Status.ContainerStatuses[0].State.Waiting; w.Reason != "ErrImagePull" && w.Reason != "ImagePullBackOff" {
			return fmt.Errorf("it waits for %s: %s", w.Reason, w.Message)
		}
		return nil
	})
}

// overlay writes a kustomization over one of ours with the image entry of the README, and returns
// its directory.
func overlay(s *harness.Scene, form, repository, tag string) string {
	s.Helper()
	dir, err := filepath.EvalSymlinks(s.TempDir())
	must(s, "temporary directory", err)
	base, err := filepath.Rel(dir, filepath.Join(root, "manifests", form))
	must(s, "relative path", err)
	must(s, "write", os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil,
		"resources: [%s]\nimages:\n  - name: registry.invalid/hostpath-provisioner\n    newName: %s\n    newTag: %s\n", base, repository, tag), 0o644))
	return dir
}

// runImage runs the image's program once on the node. It prints its version.
func runImage(s *harness.Scene, image string, node *cluster.Node) *corev1.Pod {
	s.Helper()
	p, err := s.Client.CoreV1().Pods(s.Namespace).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-"},
		Spec: corev1.PodSpec{
			NodeName:      node.Name,
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "agent", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"version"},
			}},
		},
	}, metav1.CreateOptions{})
	must(s, "create pod", err)
	return p
}

func phase(s *harness.Scene, name string, want corev1.PodPhase) error {
	p, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err == nil && p.Status.Phase != want {
		err = fmt.Errorf("it is %s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
	}
	return err
}
