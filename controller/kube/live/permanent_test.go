package live_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the API server refuses for good has more answers than two: a webhook without a code answers
// BadRequest. Permanent alone knows all of them, so no other place compares two of its answers.
func TestPermanentIsAskedInOnePlace(t *testing.T) {
	pair := regexp.MustCompile(`Is(Forbidden|Invalid|BadRequest)\(\w+\)(,| \|\|)\s+apierrors\.Is(Forbidden|Invalid|BadRequest)\(`)
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !pair.Match(text) {
			return err
		}
		if found++; filepath.ToSlash(path) != "../../kube/live/objects.go" {
			t.Errorf("%s compares two answers by which a request is refused for good: use live.Permanent", path)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d files: %v", found, err)
	}
}
