package simulation_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each patch of testdata/mends applies to this tree, and its page has a row for it: one that does not
// apply any more proves nothing.
func TestMendsApply(t *testing.T) {
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("not a checkout of git: ", err)
	}
	page, err := os.ReadFile("testdata/mends/README.md")
	if err != nil {
		t.Fatal(err)
	}
	patches, err := filepath.Glob("testdata/mends/*.patch")
	if err != nil || len(patches) < 20 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		if !strings.Contains(string(page), "| "+name+" |") {
			t.Errorf("testdata/mends/README.md has no row for %s", name)
		}
		cmd := exec.Command("git", "apply", "--check", "controller/simulation/"+patch)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: %v\n%s", patch, err, out)
		}
	}
}
