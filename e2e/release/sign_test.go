package release

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

var (
	cosignTool = cluster.Tool{Name: "cosign", Package: "github.com/sigstore/cosign/v3/cmd/cosign", Version: "v3.1.3"}
	orasTool   = cluster.Tool{Name: "oras", Package: "oras.land/oras/cmd/oras", Version: "v1.3.6"}
)

const password = "a password with spaces"

// withTool puts a program into PATH.
func withTool(t *testing.T, tool cluster.Tool) {
	t.Helper()
	file, err := tool.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(file)+":"+os.Getenv("PATH"))
}

// withKeys puts cosign into PATH, makes two pairs of keys, and returns their directory: cosign.key
// and cosign.pub, other.key and other.pub. From then on the home directory is empty, and it is an
// error to ask a server that is not on this machine.
func withKeys(t *testing.T) (dir string) {
	t.Helper()
	withTool(t, cosignTool)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		t.Errorf("%s %s was asked", q.Method, q.Host)
	}))
	t.Cleanup(proxy.Close)
	dir = t.TempDir()
	for name, value := range map[string]string{passwordVariable: password, "HOME": dir, "HTTP_PROXY": proxy.URL, "HTTPS_PROXY": proxy.URL} {
		t.Setenv(name, value)
	}
	for _, pair := range []string{"cosign", "other"} {
		if out, err := in(dir, "cosign generate-key-pair --output-key-prefix "+pair); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

// in runs a command line as it is on a page.
func in(dir, line string) (string, error) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// serve starts a registry, and returns the host of image names. All tools know that this one has no TLS.
func serve(t *testing.T) (host string, server *httptest.Server) {
	t.Helper()
	server = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	t.Cleanup(server.Close)
	return strings.Replace(strings.TrimPrefix(server.URL, "http://"), "127.0.0.1", "localhost", 1), server
}

// pushed makes a release with all that docs/release.md and images.txt tell a user to use, and
// pushes it.
func pushed(t *testing.T, host string) *Release {
	t.Helper()
	r := small(t, host+"/storage/hostpath-provisioner", "")
	manifest, err := r.Index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		for _, n := range names {
			sbom := n + "-linux-" + d.Platform.Architecture + ".cdx.json"
			if err := r.refer(d, sbomType, sbom, []byte(sbom)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.Directory, r.Root, r.Artifacts = t.TempDir(), "../..", r.Artifacts[1:] // without the provenance of small
	if err := errors.Join(r.writeChart(r.Directory), r.writeStatement(r.Directory, "go1"), r.writeImages(r.Directory), r.writeLayout(filepath.Join(t.TempDir(), "layout"), r.Directory), writeSums(r.Directory),
		r.Push(t.Context())); err != nil {
		t.Fatal(err)
	}
	return r
}

// commands returns the commands of a text whose first lines begin with prefix, without marks of comments. A line
// goes on after one that ends with | or \.
func commands(t *testing.T, file, prefix string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	more := false
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimRight(line, "\n"); {
		case more:
			all[len(all)-1] += "\n" + line
		case strings.HasPrefix(line, prefix):
			all = append(all, strings.TrimLeft(strings.TrimSpace(line), "# "))
		default:
			continue
		}
		more = strings.HasSuffix(line, "|") || strings.HasSuffix(line, "\\")
	}
	return all
}

// verifications are the commands of docs/release.md that verify the signatures of an image and of the sums.
func verifications(t *testing.T, image string) (ofImage, ofSums string) {
	t.Helper()
	lines := verifying(t)
	return strings.ReplaceAll(lines[0], "IMAGE@DIGEST", image), lines[2]
}

// verifying are the commands of docs/release.md that verify: the image, the chart, the sums and the provenance.
func verifying(t *testing.T) []string {
	t.Helper()
	lines := commands(t, "../../docs/release.md", "cosign verify")
	if len(lines) != 4 {
		t.Fatalf("docs/release.md has %d commands that verify: %q", len(lines), lines)
	}
	return lines
}

// The image and the sums of a release are signed, and the commands of docs/release.md verify them,
// without any server but the registry. They refuse what was changed and what another key signed.
func TestSign(t *testing.T) {
	keys := withKeys(t)
	host, _ := serve(t)
	r := pushed(t, host)
	ofImage, ofSums := verifications(t, r.Pinned())
	verifies := func(about, line, public string, want bool) {
		t.Helper()
		write(t, filepath.Join(r.Directory, "cosign.pub"), read(t, filepath.Join(keys, public)))
		if out, err := in(r.Directory, line); (err == nil) != want {
			t.Errorf("%s: %s: %v, want success: %t\n%s", about, line, err, want, out)
		}
	}
	verifies("not signed", ofImage, "cosign.pub", false)
	key := filepath.Join(keys, "cosign.key")
	wants(t, CheckSign(t.Context(), "cosign", key), "")
	wants(t, r.Sign(t.Context(), "cosign", key), "")
	for _, line := range []string{ofImage, ofSums} {
		verifies("signed", line, "cosign.pub", true)
		verifies("the other key", line, "other.pub", false)
	}

	// Again, as after a failure of the network.
	wants(t, r.Sign(t.Context(), "cosign", key), "")
	for _, line := range []string{ofImage, ofSums} {
		verifies("signed twice", line, "cosign.pub", true)
	}

	// A signature is for one image and one file.
	other := small(t, r.Repository, "other")
	other.Version = "v1.0.1"
	wants(t, other.Push(t.Context()), "")
	line, _ := verifications(t, other.Pinned())
	verifies("another image", line, "cosign.pub", false)
	sums := filepath.Join(r.Directory, "SHA256SUMS")
	write(t, sums, strings.Replace(read(t, sums), "images.txt", "images.TXT", 1))
	verifies("changed sums", ofSums, "cosign.pub", false)
}

// The chart and the provenance are signed, too. The command for the provenance compares it with the image, the
// version and the commit of its tag: it refuses another of each, and what another key attested.
func TestSignedProvenance(t *testing.T) {
	keys := withKeys(t)
	host, _ := serve(t)
	r := pushed(t, host)
	root := checkout(t)
	gitIn(t, root, "tag", "v1.0.0")
	write(t, filepath.Join(root, "more"), "")
	gitIn(t, root, "add", "-A")
	gitIn(t, root, "commit", "-qm", "second")
	gitIn(t, root, "tag", "v1.0.1")
	commit, err := in(root, "git rev-parse v1.0.0")
	if err != nil {
		t.Fatal(err, commit)
	}
	r.Source.Commit, r.Artifacts = strings.TrimSpace(commit), nil
	wants(t, r.writeStatement(r.Directory, "go1"), "")
	line, ofChart := verifying(t)[3], verifying(t)[1]
	chart, err := r.pinnedChart()
	if err != nil || !strings.Contains(read(t, filepath.Join(r.Directory, "images.txt")), chart+"\n") {
		t.Fatalf("%q %v is not in images.txt", chart, err)
	}
	with := func(image, digest, version string) string {
		return strings.NewReplacer("IMAGE@DIGEST", r.Repository+"@"+digest, "IMAGE", image, "v0.1.0", version).Replace(line)
	}
	verifies := func(about, line, public string, want bool) {
		t.Helper()
		write(t, filepath.Join(root, "cosign.pub"), read(t, filepath.Join(keys, public)))
		if out, err := in(root, line); (err == nil) != want {
			t.Errorf("%s: %s: %v, want success: %t\n%s", about, line, err, want, out)
		}
	}
	own := with(r.Repository, r.Digest.String(), "v1.0.0")
	ofChart = strings.ReplaceAll(ofChart, "CHART@DIGEST", chart)
	verifies("not attested", own, "cosign.pub", false)
	verifies("chart, not signed", ofChart, "cosign.pub", false)
	wants(t, r.Sign(t.Context(), "cosign", filepath.Join(keys, "cosign.key")), "")
	verifies("attested", own, "cosign.pub", true)
	verifies("chart", ofChart, "cosign.pub", true)
	verifies("the other key", own, "other.pub", false)
	verifies("chart, the other key", ofChart, "other.pub", false)
	verifies("another version and its commit", with(r.Repository, r.Digest.String(), "v1.0.1"), "cosign.pub", false)
	verifies("another name", with(r.Repository+"-other", r.Digest.String(), "v1.0.0"), "cosign.pub", false)
	gitIn(t, root, "tag", "-f", "v1.0.0", "v1.0.1")
	verifies("the tag is on another commit", own, "cosign.pub", false)
	other := small(t, r.Repository, "other")
	other.Version = "v1.0.1"
	wants(t, other.Push(t.Context()), "")
	verifies("another image", with(r.Repository, other.Digest.String(), "v1.0.0"), "cosign.pub", false)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Who cannot sign learns it, and what to do, before anything is pushed.
func TestCheckSign(t *testing.T) {
	wants(t, CheckSign(t.Context(), "cosign-of-nowhere", "a.key"), "not found in $PATH; install version 3 of it, https://github.com/sigstore/cosign")
	t.Setenv(passwordVariable, "") // restored at the end
	if err := os.Unsetenv(passwordVariable); err != nil {
		t.Fatal(err)
	}
	wants(t, CheckSign(t.Context(), "true", "a.key"), "sign with a.key: no password; set COSIGN_PASSWORD")
	t.Setenv(passwordVariable, "x")
	wants(t, CheckSign(t.Context(), "false", "a.key"), "version 3 of cosign is needed")
}

// The same with cosign itself.
func TestSignRefuses(t *testing.T) {
	keys := withKeys(t)
	const must = ": it must be a private key of cosign generate-key-pair, and COSIGN_PASSWORD its password: "
	for file, words := range map[string]string{
		"none.key": "no such file or directory", "cosign.pub": "unsupported pem type: PUBLIC KEY", "cosign.key": "decryption failed",
	} {
		t.Setenv(passwordVariable, "wrong")
		key := filepath.Join(keys, file)
		err := CheckSign(t.Context(), "cosign", key)
		wants(t, err, "sign with "+key+must)
		wants(t, err, words)
	}
}

// Each command of images.txt that copies the image to another registry keeps its digest and brings
// what refers to it: from the registry with the signatures, from the archive without that registry.
func TestImagesAreCopied(t *testing.T) {
	withTool(t, orasTool)
	keys := withKeys(t)
	host, server := serve(t)
	r := pushed(t, host)
	wants(t, r.Sign(t.Context(), "cosign", filepath.Join(keys, "cosign.key")), "")
	write(t, filepath.Join(r.Directory, "cosign.pub"), read(t, filepath.Join(keys, "cosign.pub")))
	lines := commands(t, filepath.Join(r.Directory, "images.txt"), "#   oras ")
	if len(lines) != 2 {
		t.Fatalf("images.txt has %q", lines)
	}
	for i, line := range lines {
		fromArchive := i == 1
		if fromArchive {
			server.Close()
		}
		mine, _ := serve(t)
		if out, err := in(r.Directory, strings.ReplaceAll(line, "registry.example.com", mine)); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
			continue
		}
		isCopy(t, r, mine+"/storage/hostpath-provisioner")
		verify, _ := verifications(t, mine+"/storage/hostpath-provisioner@"+r.Digest.String())
		if out, err := in(r.Directory, verify); (err == nil) == fromArchive {
			t.Errorf("%s: the copy's signature: %v\n%s", line, err, out)
		}
	}
}

// isCopy checks that a repository has the release's image with its tag, and that the commands of
// docs/release.md list what refers to it.
func isCopy(t *testing.T, r *Release, repository string) {
	t.Helper()
	tag, err := name.NewTag(repository + ":" + r.Version)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := remote.Head(tag); err != nil || d.Digest != r.Digest {
		t.Errorf("%s is %+v, %v; want the digest %s", tag, d, err, r.Digest)
	}
	discover := commands(t, "../../docs/release.md", "oras discover")
	if len(discover) != 2 {
		t.Fatalf("docs/release.md has %q", discover)
	}
	lists := func(line string, kind types.MediaType, want int) {
		t.Helper()
		out, err := in(r.Directory, strings.ReplaceAll(line, "IMAGE@DIGEST", repository+"@"+r.Digest.String())+" --format json")
		if got := strings.Count(out, `"artifactType": "`+string(kind)); err != nil || got != want {
			t.Errorf("%s: %v, %d of %s, want %d:\n%s", line, err, got, kind, want, out)
		}
	}
	lists(discover[0], provenanceType, 1)
	for _, arch := range Architectures {
		lists(strings.ReplaceAll(discover[1], "amd64", arch), sbomType, len(names))
		image, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err == nil {
			err = validate.Image(image) // fetches each layer
		}
		if err != nil {
			t.Errorf("%s for %s: %v", tag, arch, err)
		}
	}
}
