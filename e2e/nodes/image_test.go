package nodes

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The first step of an installation: the image is pushed, and one entry of an overlay makes a node run it.
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
	p := runImage(s, pushed)
	s.Eventually("the pod to end", func() error {
		return phase(s, p.Name, corev1.PodSucceeded)
	})
	text, err := s.Client.CoreV1().Pods(s.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(s.Context())
	if want := "hostpath-provisioner v9.9.9 linux/" + runtime.GOARCH + " "; err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("it printed %q, %v; want %q", text, err, want)
	}
}

// Manifests without an image of the user's own run nothing.
func TestPlaceholderIsNotPulled(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	repository, _, _ := strings.Cut(image, ":")
	p := runImage(s, repository+":never-loaded") // the tag of the manifests is loaded for the other tests
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

// overlay writes a kustomization over one of ours with the image entry of the README, and returns its directory.
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

// runImage runs the image's program once, which prints its version.
func runImage(s *harness.Scene, image string) *corev1.Pod {
	s.Helper()
	p, err := s.Client.CoreV1().Pods(s.Namespace).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: corev1.PodSpec{
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
