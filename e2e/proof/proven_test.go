package proof

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A shard that passes prints the tests that it ran last time and the tree lacks, once: then its record
// is without them. A test that moved to another package is not gone, nor one that did not run.
func TestGoneTestsArePrinted(t *testing.T) {
	root := t.TempDir()
	commit := func() {
		t.Helper()
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "c"}} {
			if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("git %q: %v %s", args, err, out)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(root, "e2e"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := map[string]record{
		"disk": {commit: "c0ffee", seconds: "1", tests: map[string][]string{".": {"TestRoot"}, "volume": {"TestHere", "TestLost", "TestMoved"}}},
		"race": {commit: "c0ffee", seconds: "1", tests: map[string][]string{"volume": {"TestOther"}}},
	}
	if err := os.WriteFile(filepath.Join(root, "e2e", "proven.txt"), format(before), 0o644); err != nil {
		t.Fatal(err)
	}
	commit()
	var out strings.Builder
	r := &Runner{Root: root, Out: &out, Tiers: &Tiers{rules: []*rule{{assigned: []Test{
		{Package: ".", Name: "TestRoot"}, {Package: "volume", Name: "TestHere"}, {Package: "volume/tree", Name: "TestMoved"}}}}}}
	passed := outcome{results: results{names: []string{" TestRoot", "volume TestHere", "volume TestHere/row", "volume/tree TestMoved"}}}
	for i, want := range []string{"disk ran these tests when it last passed, at c0ffee, and the tree does not have them; the message of the " +
		"commit that records the shard says what proves the same now:\n  volume TestLost\n", ""} {
		out.Reset()
		if err := r.prove("disk", passed); err != nil || out.String() != want {
			t.Errorf("%d: %v, printed %q, want %q", i, err, out.String(), want)
		}
		commit()
	}
	text, err := os.ReadFile(filepath.Join(root, "e2e", "proven.txt"))
	if err != nil || !strings.Contains(string(text), "\n. TestRoot\nvolume TestHere\nvolume/tree TestMoved\n") || !strings.Contains(string(text), "\nvolume TestOther\n") {
		t.Errorf("%v: %s", err, text)
	}
}
