package release

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// checkout makes a repository with one commit, and returns its directory.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "CHANGELOG.md"), "# Changelog\n\n## Unreleased\n\n- New.\n\n## v1.0.0\n\n- First.\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "first"}} {
		gitIn(t, root, args...)
	}
	return root
}

func gitIn(t *testing.T, root string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// wants checks that err has the words, or is nil if there are none.
func wants(t *testing.T, err error, words string) {
	t.Helper()
	if (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
		t.Errorf("error %v, want words %q", err, words)
	}
}

func TestSource(t *testing.T) {
	root := checkout(t)
	got, err := readSource(t.Context(), root, "v1.0.0")
	if err != nil || !got.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || len(got.Commit) != 40 {
		t.Fatalf("%+v %v", got, err)
	}
	for _, v := range []string{"", "1.0.0", "v1.0", "v1.0.0-", "v01.0.0", "v1.0.0 ", "v1.0.0+build", "v1.0.0-rc..1", "latest"} {
		_, err := readSource(t.Context(), root, v)
		wants(t, err, "is not a version")
	}
	gitIn(t, root, "tag", "-am", "x", "v1.0.0") // with an object of its own
	_, err = readSource(t.Context(), root, "v1.0.0")
	wants(t, err, "")
	write(t, filepath.Join(root, "new.go"), "package new")
	_, err = readSource(t.Context(), root, "v1.0.0")
	wants(t, err, "has changes; commit them or use another clone:\n?? new.go")
	gitIn(t, root, "add", "-A")
	gitIn(t, root, "commit", "-qm", "second")
	_, err = readSource(t.Context(), root, "v1.0.0")
	wants(t, err, "tag v1.0.0 is on commit "+got.Commit)
	for _, v := range []string{"v1.0.1-rc.1", "v2026.12.0", "v2026.12.1-rc.1"} {
		_, err = readSource(t.Context(), root, v)
		wants(t, err, "")
	}
	_, err = readSource(t.Context(), t.TempDir(), "v1.0.0")
	wants(t, err, "not a git repository")
}

func TestNotes(t *testing.T) {
	changelog := filepath.Join(checkout(t), "CHANGELOG.md")
	for version, want := range map[string]string{"v1.0.0": "- First.", "v1.1.0-rc.1": "- New.", "v1.1.0": ""} {
		got, err := readNotes(changelog, version)
		if want == "" {
			wants(t, err, `CHANGELOG.md has no heading "## v1.1.0"`)
			continue
		}
		if want = "# hostpath-provisioner " + version + "\n\n" + want + "\n"; got != want || err != nil {
			t.Errorf("%s: %q %v, want %q", version, got, err, want)
		}
	}
}

func TestNamed(t *testing.T) {
	sbom := `{"metadata": {"component": {"bom-ref": "pkg:golang/example.com/a@v0.0.0-1?type=module", "name": "example.com/a", "version": "v0.0.0-1"}}}`
	got, err := named([]byte(sbom), "v2.0.0")
	if want := strings.ReplaceAll(sbom, "v0.0.0-1", "v2.0.0"); string(got) != want || err != nil {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	for _, bad := range []string{"{}", "x"} {
		if _, err := named([]byte(bad), "v2.0.0"); err == nil {
			t.Errorf("%s is an SBOM", bad)
		}
	}
}

// Settings of the machine change neither programs nor tools.
func TestFixedSettings(t *testing.T) {
	want := map[string]string{"GOAMD64": "v1", "GOARM64": "v8.0", "GOEXPERIMENT": "", "CGO_ENABLED": "0", "GOFIPS140": "off"}
	for name, value := range map[string]string{"GOAMD64": "v3", "GOARM64": "v9.0", "GOEXPERIMENT": "arenas", "CGO_ENABLED": "1", "GOFIPS140": "latest"} {
		t.Setenv(name, value)
	}
	for name, value := range want {
		out, err := run(t.Context(), fixed, "go", "env", name)
		if got := strings.TrimSpace(string(out)); err != nil || got != value {
			t.Errorf("%s is %q, %v; want %q", name, got, err, value)
		}
	}
}

// sameAsCSI are the distributions on which nothing differs from install-csi.yaml.
var sameAsCSI = map[string]bool{"distributions/k3s": true, "distributions/kind": true}

// Every form with an image of ours is rendered: each directory of the manifests that is no part of
// another and no example.
func TestForms(t *testing.T) {
	root := filepath.Join("..", "..", "manifests")
	parts := []string{"image", "legacy/classes", "local-path/agent", "operator/agent", "monitoring/operator", "monitoring/prometheus"}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		dir, _ := filepath.Rel(root, filepath.Dir(path))
		if strings.HasPrefix(dir, "examples/") || strings.HasPrefix(dir, "uninstall/") || strings.HasPrefix(dir, "components/") ||
			sameAsCSI[dir] || slices.Contains(parts, dir) {
			return nil
		}
		if !slices.Contains(Forms, dir) {
			t.Errorf("no file is made of manifests/%s", dir)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, form := range Forms {
		if _, err := os.Stat(filepath.Join(root, form, "kustomization.yaml")); err != nil {
			t.Error(err)
		}
	}
}

func TestSchema(t *testing.T) {
	got, err := jsonSchema([]byte("spec:\n  versions:\n  - schema:\n      openAPIV3Schema: {type: object}\n"))
	if want := "{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"type\": \"object\"\n}\n"; string(got) != want || err != nil {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	_, err = jsonSchema([]byte("spec:\n  versions: []\n"))
	wants(t, err, "has 0 versions")
}

// small returns a release whose programs have a few bytes.
func small(t *testing.T, repository, content string) *Release {
	t.Helper()
	r := &Release{Options: Options{Version: "v1.0.0", Repository: repository, Progress: io.Discard}, Source: Source{Commit: "c", Time: time.Unix(1, 0).UTC()}}
	dir := t.TempDir()
	var programs []program
	for _, arch := range Architectures {
		for _, n := range names {
			file := filepath.Join(dir, arch+"-"+n)
			write(t, file, arch+n+content)
			programs = append(programs, program{name: n, arch: arch, file: file})
		}
	}
	if err := r.assemble(programs, Architectures); err != nil {
		t.Fatal(err)
	}
	d, err := partial.Descriptor(r.Index)
	if err == nil {
		err = r.refer(*d, provenanceType, "provenance.json", []byte("{}"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The same programs make the same archive in any directory.
func TestLayoutIsReproducible(t *testing.T) {
	var archives [][]byte
	for range 2 {
		r, dir := small(t, "example.com/a", ""), t.TempDir()
		if err := r.writeLayout(filepath.Join(dir, "layout"), dir); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, r.archive()))
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
	}
	if string(archives[0]) != string(archives[1]) || len(archives[0]) < 5000 {
		t.Errorf("%d and %d bytes, which differ", len(archives[0]), len(archives[1]))
	}
}

func TestPush(t *testing.T) {
	var refuse atomic.Value // a part of the path of a request that fails
	refuse.Store("nothing")
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPut && strings.Contains(q.URL.Path, refuse.Load().(string)) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, q)
	}))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/storage/agent"
	wants(t, CheckPush(t.Context(), repository+":v1.0.0"), "")
	r := small(t, repository, "")
	artifact, err := r.Artifacts[0].Digest()
	if err != nil {
		t.Fatal(err)
	}

	refuse.Store(artifact.String())
	wants(t, r.Push(t.Context()), "what refers to it")
	tag, err := name.NewTag(r.Name())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Head(tag); err == nil {
		t.Error("the tag is there, and not what refers to the image")
	}

	refuse.Store("nothing")
	wants(t, r.Push(t.Context()), "")
	wants(t, r.Push(t.Context()), "") // again, as after a failure of the network
	if d, err := remote.Head(tag); err != nil || d.Digest != r.Digest {
		t.Errorf("%+v %v, want digest %s", d, err, r.Digest)
	}
	platforms, err := r.Index.IndexManifest()
	if err != nil || len(platforms.Manifests) != 2 {
		t.Fatalf("%+v %v", platforms, err)
	}
	for i, arch := range Architectures {
		image, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := image.Digest(); err != nil || d != platforms.Manifests[i].Digest {
			t.Errorf("%s gets %s %v, want %+v", arch, d, err, platforms.Manifests[i])
		}
	}
	found, err := remote.Referrers(tag.Digest(r.Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	index, err := found.IndexManifest()
	if err != nil || len(index.Manifests) != 1 || index.Manifests[0].Digest != artifact || index.Manifests[0].ArtifactType != string(provenanceType) {
		t.Errorf("%+v %v refers to the image", index, err)
	}
	other := small(t, repository, "other")
	wants(t, other.Push(t.Context()), "a version does not change")
	if d, err := remote.Head(tag); err != nil || d.Digest != r.Digest {
		t.Errorf("%+v %v, want digest %s", d, err, r.Digest)
	}
	other.Overwrite = true
	wants(t, other.Push(t.Context()), "")
	if d, err := remote.Head(tag); err != nil || d.Digest != other.Digest {
		t.Errorf("%+v %v, want digest %s", d, err, other.Digest)
	}
}

func TestName(t *testing.T) {
	for image, words := range map[string]string{
		"registry.example.com/storage/agent:v1": "", "localhost:5000/agent:v1": "", "agent:v1": "not the name of an image that you can push",
		"": "not the name", "registry.invalid/agent:v1": "not the name", "registry.example.com/agent": "not the name",
		"registry.example.com/Agent:v1": "not the name", "registry.example.com/agent@sha256:0:v1": "not the name",
	} {
		_, err := parseName(image)
		wants(t, err, words)
	}
}

// What make build left becomes an archive that names its architecture.
func TestLocal(t *testing.T) {
	root := t.TempDir() // without commits
	_, err := Local(t.Context(), root, "example.com/agent:v1", io.Discard, "arm64")
	wants(t, err, "bin/linux-arm64/hostpath-provisioner: no such file or directory; make build ARCHES=arm64 builds it")
	if err := os.MkdirAll(filepath.Join(root, "bin/linux-arm64"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		write(t, filepath.Join(root, "bin/linux-arm64", n), n)
	}
	for _, bad := range []string{"", "A", "agent@sha256:" + strings.Repeat("0", 64)} {
		_, err := Local(t.Context(), root, bad, io.Discard, "arm64")
		wants(t, err, "is not the name of an image with a tag")
	}
	r, err := Local(t.Context(), root, "example.com/agent:v1", io.Discard, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "artifacts", "agent.tar")
	wants(t, r.WriteArchive(file), "")
	image, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != "arm64" || config.Config.Labels["org.opencontainers.image.version"] != "v1" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/hostpath-provisioner"}) {
		t.Errorf("%+v %v", config, err)
	}
}
