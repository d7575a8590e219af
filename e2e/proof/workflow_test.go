package proof

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what of .github/workflows/ci.yml is compared with the tree.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Strategy    struct {
			Matrix map[string][]string
		}
		Steps []struct{ Uses, Run string }
	}
}

// The workflow of a forge runs .ci/run and each shard of tier 2, and nothing else. It may read the tree
// alone, has no secrets, and names actions by their commits.
func TestWorkflow(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/ci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	var shards []string
	for _, s := range tier2 {
		shards = append(shards, s.name)
	}
	if got := w.Jobs["shard"].Strategy.Matrix["shard"]; !slices.Equal(got, shards) {
		t.Errorf("the matrix has the shards %q, want %q", got, shards)
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" || strings.Contains(string(text), "secrets.") {
		t.Errorf("permissions %v, or it has secrets", w.Permissions)
	}
	var runs []string
	pinned := regexp.MustCompile(`^actions/checkout@[0-9a-f]{40}$`)
	for name, job := range w.Jobs {
		if job.Permissions != nil {
			t.Errorf("%s has the permissions %v of its own", name, job.Permissions)
		}
		for _, s := range job.Steps {
			if s.Uses != "" && !pinned.MatchString(s.Uses) {
				t.Errorf("%s uses %s, which is not checkout by a commit", name, s.Uses)
			}
			if s.Run != "" {
				runs = append(runs, s.Run)
			}
		}
	}
	slices.Sort(runs)
	if want := []string{`sudo env "PATH=$PATH" .ci/run`, `sudo env "PATH=$PATH" make test-full "SHARD=$SHARD"`}; !slices.Equal(runs, want) {
		t.Errorf("it runs %q, want %q", runs, want)
	}
}

// No page has a badge of a workflow that no one has seen run.
func TestNoBadge(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "badge.svg") {
		t.Error("README.md has a badge")
	}
}
