package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Tables that say which test holds a promise are worth as much as the tests are there.
func TestDocumentsNameRealTests(t *testing.T) {
	have := testNames(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]*)`")
	for _, doc := range []string{"docs/threat-model.md", "docs/reliability.md", "docs/on-disk-format.md", "e2e/README.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !have[m[1]] {
				t.Errorf("%s names %s, which no file has", doc, m[1])
			}
		}
	}
}

// The images of other projects are theirs to change. Nothing here may pull one
// in place of the agent; the standard sidecars run beside it.
func TestNothingNamesAnImageOfOthers(t *testing.T) {
	registry := regexp.MustCompile(`\b(?:quay\.io|docker\.io|ghcr\.io|gcr\.io|registry\.k8s\.io|registry\.redhat\.io|mcr\.microsoft\.com|public\.ecr\.aws)/[^\s"'` + "`" + `]+`)
	source := regexp.MustCompile(`^(?:Makefile|Dockerfile|.*\.(?:go|md|sh|service|ya?ml))$`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
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

// testNames returns the tests and fuzz targets of the whole tree, whatever
// their build tags.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]*)\(`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			have[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}
