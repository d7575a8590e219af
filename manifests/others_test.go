package manifests_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// The images of other projects are theirs to change. No file of the repository may name one in
// place of the agent's; the standard sidecars run beside it.
func TestNothingNamesAnImageOfOthers(t *testing.T) {
	registry := regexp.MustCompile(`\b(?:quay\.io|docker\.io|ghcr\.io|gcr\.io|registry\.k8s\.io|registry\.redhat\.io|mcr\.microsoft\.com|public\.ecr\.aws)/[^\s"'` + "`" + `]+`)
	source := regexp.MustCompile(`^(?:Makefile|.*\.(?:go|md|sh|service|ya?ml))$`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !source.MatchString(d.Name()) {
			return err
		}
		text, err := os.ReadFile(path)
		for _, image := range registry.FindAllString(string(text), -1) {
			if !strings.HasPrefix(image, "registry.k8s.io/sig-storage/") {
				t.Errorf("%s names %s", path, image)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The older provisioner's objects have names of this project's. The commands that delete them leave
// those with a label that all of this project's have.
func TestReplacingKeepsThisProjectsObjects(t *testing.T) {
	const label = "app.kubernetes.io/name"
	deletes := regexp.MustCompile(`(?m)^.*kubectl.* delete (?:daemonset|deployment|clusterrolebinding|rolebinding).*$`).FindAllString(page(t, "docs/from-kubevirt.md"), -1)
	if len(deletes) != 5 {
		t.Errorf("docs/from-kubevirt.md deletes objects by %q", deletes)
	}
	for _, command := range deletes {
		if !strings.Contains(command, " -l '"+label+"!=hostpath-provisioner") {
			t.Errorf("%s: also deletes this project's", command)
		}
	}
	bases := 0
	for _, file := range files(t) {
		if path.Base(file) != "kustomization.yaml" {
			continue
		}
		k := one[*kustomization](t, file)
		for _, resource := range k.Resources {
			if path.Ext(resource) != ".yaml" {
				continue
			}
			for _, object := range load(t, path.Join(path.Dir(file), resource)) {
				if _, is := object.(*appsv1.DaemonSet); !is {
					continue
				}
				if bases++; len(k.Labels) != 1 || k.Labels[0].Pairs[label] != "hostpath-provisioner" {
					t.Errorf("the DaemonSet of %s lacks the label %s", file, label)
				}
			}
		}
	}
	if bases < 4 {
		t.Errorf("%d DaemonSets", bases)
	}
}
