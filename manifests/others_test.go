package manifests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
