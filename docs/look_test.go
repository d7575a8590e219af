package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLook compares the names of docs/look.md with the tree, because none of its tools runs here: each tool loads the archive that
// make image writes, and what is applied exists and has the image by the name in the archive.
func TestLook(t *testing.T) {
	read := func(path string) string {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	page := read("docs/look.md")
	archive := "_artifacts/hostpath-provisioner.tar"
	if !strings.Contains(read("Makefile"), "../"+archive) {
		t.Errorf("make image writes another file than %s", archive)
	}
	for _, load := range []string{"kind load image-archive", "k3d image import", "minikube image load", "k3s ctr images import"} {
		if !strings.Contains(page, load+" "+archive+"`") {
			t.Errorf("the page lacks: %s %s", load, archive)
		}
	}
	applied := regexp.MustCompile(`kubectl (?:apply|delete) -([kf]) (\S+?)[\s`+"`"+`]`).FindAllStringSubmatch(page, -1)
	if len(applied) < 4 {
		t.Errorf("the page applies %d things", len(applied))
	}
	for _, form := range []string{"manifests/distributions/kind", "manifests/distributions/k3s", "manifests/csi"} {
		if !strings.Contains(page, "`"+form+"`") {
			t.Errorf("the page lacks: %s", form)
		}
		read(form + "/kustomization.yaml")
	}
	for _, m := range applied {
		path := m[2]
		if strings.HasPrefix(path, "$STORAGE") { // the reader's own
			continue
		}
		if m[1] == "k" {
			path += "/kustomization.yaml"
		}
		read(path)
	}
	example := read("manifests/examples/csi-claim-and-pod.yaml")
	for _, name := range []string{"name: journal", "/data/journal"} {
		if !strings.Contains(example, name) {
			t.Errorf("the example has no %s", name)
		}
	}
	set := read("manifests/csi/daemonset.yaml")
	for _, line := range []string{"name: hostpath-provisioner-csi", "imagePullPolicy: IfNotPresent"} {
		if !strings.Contains(set, line) {
			t.Errorf("the DaemonSet has no %q", line)
		}
	}
}
