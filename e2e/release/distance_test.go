package release

import (
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// Each form is rendered by its URL at a tag, as it is in a checkout of that tag, without the
// checkout. kubectl fetches it with git over HTTP: what a form needs is below the top of the
// repository, and no file is outside of a kustomization's own directory.
func TestFromADistance(t *testing.T) {
	const tag = "v9.9.9"
	binaries, err := cluster.Build(t.Context(), os.Getenv("K8S_VERSION"), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	served, checkout := filepath.Join(dir, "served", "repository.git"), filepath.Join(dir, "checkout")
	for _, args := range [][]string{
		{"clone", "-q", "--bare", "../..", served}, {"-C", served, "tag", tag}, {"clone", "-q", "--branch", tag, served, checkout},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	url := serveGit(t, filepath.Dir(served)) + "/repository.git//manifests/"
	kustomize := func(at string) string {
		t.Helper()
		out, err := run(t.Context(), nil, binaries.Path("kubectl"), "kustomize", at)
		if err != nil {
			t.Error(err)
		}
		return string(out)
	}
	forms := append([]string{"components/metrics-auth", "distributions/k3s", "examples/migrate", "examples/monitoring", "uninstall/csi", "uninstall/operator"}, Forms...)
	for _, form := range forms {
		if got, want := kustomize(url+form+"?ref="+tag), kustomize(filepath.Join(checkout, "manifests", form)); got != want || got == "" {
			t.Errorf("%s: %d bytes by its URL, %d from a checkout, which differ", form, len(got), len(want))
		}
	}

	// An overlay of a user's own, without a checkout, as docs/install.md has it.
	mine := t.TempDir()
	text := overlayOf(t, "../../docs/install.md")
	text = strings.ReplaceAll(text, "https://forge.example.com/storage/hostpath-provisioner//manifests/csi?ref=v0.1.0", url+"csi?ref="+tag)
	if err := os.WriteFile(filepath.Join(mine, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := kustomize(mine)
	if !strings.Contains(got, "image: registry.example.com/storage/hostpath-provisioner:v0.1.0\n") || strings.Contains(got, placeholder) {
		t.Errorf("the overlay\n%s\nrenders\n%.3000s", text, got)
	}
}

// overlayOf returns the kustomization of a page whose base is an URL.
func overlayOf(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(data), "```yaml\n") {
		if text, _, _ := strings.Cut(block, "```"); strings.HasPrefix(text, "resources:\n  - https://") {
			return text
		}
	}
	t.Fatalf("%s has no kustomization with an URL", page)
	return ""
}

// serveGit serves the repositories of a directory as git hosts do, and returns the URL.
func serveGit(t *testing.T, dir string) string {
	t.Helper()
	path, err := run(t.Context(), nil, "git", "--exec-path")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	})
	t.Cleanup(server.Close)
	return server.URL
}
