package proof

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/pages"
)

// Tables that say which test proves a promise are worth as much as the tests exist.
func TestDocumentsNameRealTests(t *testing.T) {
	_, tests := loaded(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]*)`")
	for _, doc := range []string{"docs/threat-model.md", "docs/reference/threat-model.md", "docs/reference/reliability.md", "docs/on-disk-format.md", "e2e/README.md"} {
		text, err := os.ReadFile(filepath.Join("../..", doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !slices.ContainsFunc(tests, func(test Test) bool { return test.Name == m[1] }) {
				t.Errorf("%s names %s, which no file has", doc, m[1])
			}
		}
	}
}

// Each row of docs/reference/reliability.md says in which tiers its tests run: 1 if all of them are in tier
// 1, 2 if none is, and "1, 2" if some are. Tests of tier 1 run in tier 2, too.
func TestReliabilityNamesTiers(t *testing.T) {
	tiers, tests := loaded(t)
	_ = tiers.Assign(tests) // TestEveryTestHasItsPlace reports what is wrong with it
	first := map[string]bool{}
	for _, r := range tiers.rules {
		for _, test := range r.assigned {
			first[test.Name] = first[test.Name] || len(r.steps) > 0
		}
	}
	text, err := os.ReadFile("../../docs/reference/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]*)`")
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		var in []bool
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			in = append(in, first[m[1]])
		}
		if !strings.HasPrefix(line, "|") || len(in) == 0 {
			continue
		}
		rows++
		want := "1, 2"
		if !slices.Contains(in, false) {
			want = "1"
		} else if !slices.Contains(in, true) {
			want = "2"
		}
		if got := strings.TrimSpace(cells[len(cells)-1]); got != want {
			t.Errorf("docs/reference/reliability.md: the row %q has tier %q, want %q", strings.TrimSpace(cells[0]), got, want)
		}
	}
	if rows == 0 {
		t.Error("docs/reference/reliability.md has no row that names a test")
	}
}

// A page that a test follows, as the pages' list says, puts the test's shards out of date when it changes.
func TestFollowedPagesAreOfTheirShards(t *testing.T) {
	tiers, tests := loaded(t)
	_ = tiers.Assign(tests) // TestEveryTestHasItsPlace reports what is wrong with it
	follows := regexp.MustCompile(`(Test\w+) of (\w+) follows`)
	found := 0
	for page, why := range pages.Elsewhere {
		for _, m := range follows.FindAllStringSubmatch(why, -1) {
			for _, r := range tiers.rules {
				if !slices.ContainsFunc(r.assigned, func(test Test) bool { return test.Name == m[1] && strings.HasSuffix(test.Package, "/"+m[2]) }) {
					continue
				}
				found++
				for _, shard := range r.shards {
					if !slices.ContainsFunc(tiers.Paths[shard], func(path string) bool { return page == path || strings.HasPrefix(page, path+"/") }) {
						t.Errorf("tiers.txt: shard %s runs %s, which follows %s: add the page to its paths", shard, m[1], page)
					}
				}
			}
		}
	}
	if found < 7 {
		t.Errorf("%d pages are followed by tests of their own", found)
	}
}
