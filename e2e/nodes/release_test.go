package nodes

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A release is pushed, and both nodes run it by its digest; then they run it from its archive,
// without the registry.
func TestRelease(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	s.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/storage/hostpath-provisioner"
	const version = "v9.9.9-rc.1"
	clone := filepath.Join(s.TempDir(), "clone") // what is not committed is not released
	out, err := exec.Command("git", "clone", "-q", root, clone).CombinedOutput()
	must(s, "clone: "+string(out), err)
	out, err = exec.Command("make", "-C", clone, "--no-print-directory", "release", "VERSION="+version, "IMAGE="+repository, "PUSH=1").CombinedOutput()
	must(s, "make release: "+string(out), err)
	files := filepath.Join(clone, "_artifacts", "release", version)
	images, err := os.ReadFile(filepath.Join(files, "images.txt"))
	must(s, "images.txt", err)
	_, after, found := strings.Cut(string(images), "\n"+repository+":"+version+"@")
	digest, _, _ := strings.Cut(after, "\n")
	if !found {
		t.Fatalf("images.txt lacks the release's own image:\n%s", images)
	}
	pinned := repository + "@" + digest
	for _, node := range local.Nodes() {
		printsVersion(s, node, pinned, version)
	}

	server.Close()
	commands := regexp.MustCompile(`(?m)^#   (ctr .*)$`).FindAllStringSubmatch(string(images), -1)
	if len(commands) != 2 {
		t.Fatalf("images.txt has %d commands for nodes:\n%s", len(commands), images)
	}
	for _, node := range local.Nodes() {
		names, err := onNode(node, "ctr", "-n", "k8s.io", "images", "ls", "-q")
		must(s, "list images", err)
		for name := range strings.FieldsSeq(names) {
			if strings.HasPrefix(name, repository) || strings.HasSuffix(digest, name) {
				_, err := onNode(node, "ctr", "-n", "k8s.io", "images", "rm", "--sync", name)
				must(s, "remove "+name, err)
			}
		}
		for _, c := range commands {
			_, err := onNode(node, "sh", "-c", "cd "+files+" && "+c[1])
			must(s, c[1], err)
		}
		printsVersion(s, node, pinned, version)
	}
}

// printsVersion runs the image's program on the node.
func printsVersion(s *harness.Scene, node *cluster.Node, image, version string) {
	s.Helper()
	p := runImage(s, image, node)
	s.Eventually("the pod to end", func() error { return phase(s, p.Name, corev1.PodSucceeded) })
	text, err := s.Client.CoreV1().Pods(s.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(s.Context())
	if want := "hostpath-provisioner " + version + " linux/" + runtime.GOARCH + " "; err != nil || !strings.HasPrefix(string(text), want) {
		s.Errorf("node %s: it printed %q, %v; want %q", node.Name, text, err, want)
	}
}
