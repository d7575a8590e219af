package release

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"sigs.k8s.io/yaml"
)

// Two releases of this tree, from clones at different paths, one of which lacks the tags, are the
// same bytes.
func TestTwoReleases(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything twice")
	}
	const version, repository = "v9.9.9-rc.1", "registry.example.com/storage/hostpath-provisioner"
	const project = "https://forge.example.com/storage/hostpath-provisioner"
	var made []*Release
	head, err := exec.Command("git", "-C", "../..", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a", "elsewhere/and/longer"} {
		clone := filepath.Join(t.TempDir(), path)
		if out, err := exec.Command("git", "clone", "-q", "../..", clone).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		gitIn(t, clone, "reset", "-q", "--hard", strings.TrimSpace(string(head))) // a commit may have come since
		if path == "a" {
			gitIn(t, clone, "tag", version)
		}
		r, err := Make(t.Context(), Options{Root: clone, Version: version, Repository: repository, Project: project,
			Directory: filepath.Join(clone, "_artifacts", "release"), Progress: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, r)
	}
	first, second := contents(t, made[0].Directory), contents(t, made[1].Directory)
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("%s: %d and %d bytes, which differ", name, len(data), len(second[name]))
		}
		if bytes.Contains(data, []byte("url: docs/runbooks/")) {
			t.Errorf("%s has alerts without addresses of their pages", name)
		}
		if bytes.Contains(data, []byte(placeholder+":")) {
			t.Errorf("%s names %s", name, placeholder)
		}
	}
	if len(first) != len(second) || len(first) < len(Forms)+12+len(pluginPlatforms) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	sums := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	sums.Dir = made[0].Directory
	if out, err := sums.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	pinned(t, made[0], first)
	removable(t, first)
	programsAre(t, made[0], first)
	pluginIs(t, made[0], first)
}

// pluginIs checks that the plugin's archives are those of the manifest, and that the program for
// this machine has the version.
func pluginIs(t *testing.T, r *Release, files map[string][]byte) {
	t.Helper()
	for _, p := range pluginPlatforms {
		name := r.pluginArchive(p)
		sum := fmt.Sprintf("%s%s\n    sha256: %x\n", r.downloads(), name, sha256.Sum256(files[name]))
		if !bytes.Contains(files["hpp.yaml"], []byte(sum)) {
			t.Errorf("hpp.yaml lacks %q", sum)
		}
		if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
			continue
		}
		dir := t.TempDir()
		archive := filepath.Join(r.Directory, name)
		if out, err := exec.Command("tar", "-C", dir, "-xzf", archive).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := exec.Command(filepath.Join(dir, plugin), "version", "--client").CombinedOutput()
		if want := "plugin   " + r.Version + "\n"; err != nil || string(out) != want {
			t.Errorf("%s prints %q %v, want %q", name, out, err, want)
		}
		data, err := os.ReadFile(filepath.Join(dir, plugin))
		if err != nil || bytes.Contains(data, []byte(r.Root)) {
			t.Errorf("%s names %s, or %v", name, r.Root, err)
		}
	}
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// pinned checks that every workload of ours has the image by its digest.
func pinned(t *testing.T, r *Release, files map[string][]byte) {
	t.Helper()
	workloads := 0
	for name, data := range files {
		if !strings.HasPrefix(name, "install-") {
			continue
		}
		for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
			var o struct {
				Kind string
				Spec struct {
					Template struct {
						Spec struct {
							Containers []struct{ Name, Image string }
						}
					}
				}
			}
			if err := yaml.Unmarshal(document, &o); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, c := range o.Spec.Template.Spec.Containers {
				if workloads++; c.Image != r.Pinned() && !strings.HasPrefix(c.Image, "registry.k8s.io/sig-storage/") {
					t.Errorf("%s: %s runs %s, want %s", name, c.Name, c.Image, r.Pinned())
				}
			}
		}
	}
	if workloads < len(Forms)-2 { // policy and monitoring have none
		t.Errorf("%d containers", workloads)
	}
	if bytes.Contains(files["install-operator.yaml"], []byte("name: OPERATOR_IMAGE\n")) {
		t.Error("the operator's agents run the image of a variable, not that of the operator's container")
	}
	_, got, _ := strings.Cut(string(files["images.txt"]), "\n"+r.Name()+"@"+r.Digest.String()+"\n")
	if _, sidecar, _ := strings.Cut(string(files["install-csi-sidecars.yaml"]), "image: registry.k8s.io/"); got == "" ||
		got != "registry.k8s.io/"+sidecar[:strings.Index(sidecar, "\n")+1] {
		t.Errorf("images.txt has, after the release's own, %q", got)
	}
}

// removable checks that each form has a file of what may be deleted to remove it, which leaves what
// others use, and that the file that installs it names that.
func removable(t *testing.T, files map[string][]byte) {
	t.Helper()
	for _, form := range Forms {
		text, found := files["uninstall-"+fileOf(form)]
		if found == slices.Contains(whole, form) {
			t.Errorf("%s has a file to remove it: %v", form, found)
		}
		if !found {
			continue
		}
		if !bytes.Contains(files["install-"+fileOf(form)], []byte("\n# Never delete")) || !bytes.Contains(text, []byte("\n# Before: ")) {
			t.Errorf("%s: a file has no words about what comes first", form)
		}
		objects := 0
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var o struct{ Kind string }
			if err := yaml.Unmarshal(document, &o); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			switch objects++; o.Kind {
			case "Namespace", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition", "HostPathProvisioner", "CSIDriver":
				t.Errorf("uninstall-%s removes a %s", fileOf(form), o.Kind)
			}
		}
		if objects < 3 {
			t.Errorf("uninstall-%s has %d objects", fileOf(form), objects)
		}
	}
}

// programsAre checks that the image of each architecture has static programs for it, without paths,
// and an SBOM of their modules.
func programsAre(t *testing.T, r *Release, files map[string][]byte) {
	t.Helper()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, arch := range Architectures {
		for _, name := range names {
			data := extracted(t, r, arch, name)
			f, err := elf.NewFile(bytes.NewReader(data))
			if err != nil {
				t.Fatalf("%s for %s: %v", name, arch, err)
			}
			dynamic := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
			if f.Machine != machines[arch] || dynamic || bytes.Contains(data, []byte(r.Root)) {
				t.Errorf("%s for %s: machine %s, dynamic %t, or it names %s", name, arch, f.Machine, dynamic, r.Root)
			}
			info, err := buildinfo.Read(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			var bom struct {
				Components []struct{ Name, Version string }
			}
			if err := json.Unmarshal(files[name+"-linux-"+arch+".cdx.json"], &bom); err != nil {
				t.Fatal(err)
			}
			for _, m := range info.Deps {
				if !slices.ContainsFunc(bom.Components, func(c struct{ Name, Version string }) bool { return c.Name == m.Path && c.Version == m.Version }) {
					t.Errorf("the SBOM of %s for %s lacks %s %s", name, arch, m.Path, m.Version)
				}
			}
		}
	}
}

// extracted returns a file of the image for an architecture.
func extracted(t *testing.T, r *Release, arch, name string) []byte {
	t.Helper()
	manifest, err := r.Index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(manifest.Manifests, func(d v1.Descriptor) bool { return d.Platform.Architecture == arch })
	image, err := r.Index.Image(manifest.Manifests[i].Digest)
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	files := tar.NewReader(content)
	for {
		h, err := files.Next()
		if err != nil {
			t.Fatalf("%s for %s: %v", name, arch, err)
		}
		if h.Name == name {
			data, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
	}
}
