package proof

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Tables that say which test proves a promise are worth as much as the tests exist.
func TestDocumentsNameRealTests(t *testing.T) {
	_, tests := loaded(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]*)`")
	for _, doc := range []string{"docs/threat-model.md", "docs/reliability.md", "docs/on-disk-format.md", "e2e/README.md"} {
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

// Each row of docs/reliability.md says in which tiers its tests run: 1 if all of them are in tier
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
	text, err := os.ReadFile("../../docs/reliability.md")
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
			t.Errorf("docs/reliability.md: the row %q has tier %q, want %q", strings.TrimSpace(cells[0]), got, want)
		}
	}
	if rows == 0 {
		t.Error("docs/reliability.md has no row that names a test")
	}
}

// before.txt has the tests and rows that ran before the tests were split into tiers, and proven.txt
// those that the shards ran when they last passed. A test of either that is not in the tree any more
// has a line in before.txt that says why, and what proves the same now.
func TestNoTestIsLost(t *testing.T) {
	_, tests := loaded(t)
	text, err := os.ReadFile("before.txt")
	if err != nil {
		t.Fatal(err)
	}
	proven, err := (&Runner{Root: "../.."}).proven()
	if err != nil || len(proven) == 0 {
		t.Fatal(proven, err)
	}
	for _, problem := range lost(string(text), proven, tests) {
		t.Error(problem)
	}
	given := "# head\nvolume TestA row\nvolume TestB row other/row\nvolume TestC\n  gone: TestA has its rows\n"
	proven = map[string]record{"race": {tests: map[string][]string{"volume": {"TestA", "TestC", "TestD"}}}}
	want := []string{
		`volume TestB: is not in the tree; add a line "  gone: WHY" below it in before.txt`,
		`volume TestD: is not in the tree, and shard race ran it; add it to before.txt with a line "  gone: WHY" below it`,
	}
	if got := lost(given, proven, []Test{{Package: "volume/moved", Name: "TestA"}}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// lost returns a sentence for each test in text, which is before.txt, or in the records of shards
// that is neither among tests, in whichever package, nor explained in text.
func lost(text string, proven map[string]record, tests []Test) (problems []string) {
	known := map[string]bool{}
	for _, test := range tests {
		known[test.Name] = true
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(line, "#") || strings.HasPrefix(line, " ") || known[fields[1]] {
			continue
		}
		known[fields[1]] = true
		if i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "  gone: ") {
			problems = append(problems, fields[0]+" "+fields[1]+`: is not in the tree; add a line "  gone: WHY" below it in before.txt`)
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(proven)) {
		for _, pkg := range slices.Sorted(maps.Keys(proven[shard].tests)) {
			for _, test := range proven[shard].tests[pkg] {
				if !known[test] {
					problems = append(problems, pkg+" "+test+": is not in the tree, and shard "+shard+
						` ran it; add it to before.txt with a line "  gone: WHY" below it`)
				}
			}
		}
	}
	return problems
}
