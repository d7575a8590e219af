package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A picture that is written by hand names what the tree has, fits a forge's column, and is legible on a dark page.
func TestPicturesAreTrue(t *testing.T) {
	written := []string{"docs/forms.svg"}
	for _, path := range written {
		svg := text(t, path)
		names := regexp.MustCompile(`manifests/[a-z/-]+`).FindAllString(svg, -1)
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(root, name, "kustomization.yaml")); err != nil {
				t.Errorf("%s names %s: %v", path, name, err)
			}
		}
		if width := found(t, path, `<svg [^>]*width="(\d+)"`)[0]; len(names) < 5 || len(width) > 3 || width > "832" {
			t.Errorf("%s is %s wide and names %q", path, width, names)
		}
		if !strings.Contains(svg, "prefers-color-scheme: dark") || !strings.Contains(svg, "<title>") {
			t.Errorf("%s has no colours for a dark page, or no title", path)
		}
	}
}
