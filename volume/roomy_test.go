package volume_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestKeptVolumesNeedRoom finds tests that keep deleted volumes on the disk of the machine: once that has
// less than a tenth free, they go, and the tests fail.
func TestKeptVolumesNeedRoom(t *testing.T) {
	literal := regexp.MustCompile(`(?s)(keeping\()?volume\.Config\{[^{}]*TrashRetention(Max)?:[^{}]*`)
	checked := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		own := strings.HasPrefix(e.Name(), "disk_") || strings.HasPrefix(e.Name(), "quota_") || strings.HasSuffix(e.Name(), "_power_test.go")
		if err != nil || own || !strings.HasSuffix(path, "_test.go") { // tests with a disk of their own
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range literal.FindAllString(string(text), -1) {
			if checked++; !strings.HasPrefix(found, "keeping(") && !strings.Contains(found, "Figures") &&
				!strings.Contains(string(text), "Figures: func(") {
				t.Errorf("%s: %s: set Figures, or use classtest.PoolsOf", path, found)
			}
		}
		return err
	})
	if ok(t, err); checked < 5 {
		t.Errorf("%d configurations that keep volumes were found", checked)
	}
}
