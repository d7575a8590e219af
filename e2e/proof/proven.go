package proof

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// record is what proven.txt has of a shard: a line with its name, commit and seconds, and a line
// for each package with the tests that passed.
type record struct {
	commit  string
	seconds string
	tests   map[string][]string // by package
}

func (r *Runner) provenFile() string { return filepath.Join(r.Root, "e2e", "proven.txt") }

const provenHead = `# The commit at which each shard of tier 2 last passed, how many seconds it took, and which tests it ran.
# Written by make test-full; CONTRIBUTING.md explains the two tiers.
`

// prove writes that a shard passed. It does nothing in a tree with changes that are not committed,
// apart from proven.txt itself, because no commit names such a tree.
func (r *Runner) prove(shard string, o outcome) error {
	changed, err := r.git("status", "--porcelain", "--", ".", ":!e2e/proven.txt")
	if err != nil {
		return err
	}
	if changed != "" {
		fmt.Fprintf(r.Out, "%s passed; e2e/proven.txt does not say so, because the tree has changes that are not committed\n",
			shard)
		return nil
	}
	commit, err := r.git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return err
	}
	all, err := r.proven()
	if err != nil {
		return err
	}
	if gone := r.gone(all[shard]); len(gone) > 0 {
		fmt.Fprintf(r.Out, "%s ran these tests when it last passed, at %s, and the tree does not have them; the message of the "+
			"commit that records the shard says what proves the same now:\n  %s\n", shard, all[shard].commit, strings.Join(gone, "\n  "))
	}
	all[shard] = record{commit: commit, seconds: fmt.Sprintf("%.0f", o.wall.Seconds()), tests: topLevel(o.results.names)}
	return os.WriteFile(r.provenFile(), format(all), 0o644)
}

// gone returns the tests of a record, as "PACKAGE TEST", that the tree does not have in any package.
func (r *Runner) gone(one record) (all []string) {
	known := map[string]bool{}
	for _, line := range r.Tiers.rules {
		for _, test := range line.assigned {
			known[test.Name] = true
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(one.tests)) {
		for _, test := range one.tests[pkg] {
			if !known[test] {
				all = append(all, pkg+" "+test)
			}
		}
	}
	return all
}

// topLevel groups the test functions of "PACKAGE TEST/ROW" by package.
func topLevel(names []string) map[string][]string {
	tests := map[string][]string{}
	for _, name := range names {
		pkg, test, _ := strings.Cut(name, " ")
		if pkg == "" {
			pkg = "." // of the root
		}
		if !strings.Contains(test, "/") {
			tests[pkg] = append(tests[pkg], test)
		}
	}
	for pkg := range tests {
		slices.Sort(tests[pkg])
		tests[pkg] = slices.Compact(tests[pkg])
	}
	return tests
}

func format(all map[string]record) []byte {
	var b bytes.Buffer
	b.WriteString(provenHead)
	for _, shard := range slices.Sorted(maps.Keys(all)) {
		one := all[shard]
		fmt.Fprintf(&b, "\nshard %s %s %s\n", shard, one.commit, one.seconds)
		for _, pkg := range slices.Sorted(maps.Keys(one.tests)) {
			fmt.Fprintf(&b, "%s %s\n", pkg, strings.Join(one.tests[pkg], " "))
		}
	}
	return b.Bytes()
}

// proven reads proven.txt. Without the file no shard is proven.
func (r *Runner) proven() (map[string]record, error) {
	all := map[string]record{}
	text, err := os.ReadFile(r.provenFile())
	if os.IsNotExist(err) {
		return all, nil
	}
	var shard string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#" || strings.HasPrefix(fields[0], "#"):
		case fields[0] == "shard" && len(fields) == 4:
			shard = fields[1]
			all[shard] = record{commit: fields[2], seconds: fields[3], tests: map[string][]string{}}
		case shard != "":
			all[shard].tests[fields[0]] = fields[1:]
		}
	}
	return all, err
}

// Stale prints the shards that were never proven, or whose paths changed since. It prints nothing
// else.
func (r *Runner) Stale() error {
	all, err := r.proven()
	if err != nil {
		return err
	}
	for _, shard := range r.Tiers.Shards {
		one, ok := all[shard]
		if !ok {
			fmt.Fprintf(r.Out, "shard %s: never proven\n", shard)
			continue
		}
		changed, err := r.git(slices.Concat([]string{"diff", "--name-only", one.commit, "--", ":!e2e/proven.txt"},
			pathspecs(r.Tiers.Paths[shard]))...)
		if err != nil {
			fmt.Fprintf(r.Out, "shard %s: proven at %s, which this repository does not have\n", shard, one.commit)
			continue
		}
		if files := strings.Fields(changed); len(files) > 0 {
			fmt.Fprintf(r.Out, "shard %s: changed since it was proven at %s: %s\n", shard, one.commit, some(files))
		}
	}
	return nil
}

// pathspecs returns the paths of a shard in git's words, which have a colon before the exclamation
// mark. Pages count only for a shard that names docs or a page.
func pathspecs(paths []string) []string {
	specs, pages := make([]string, 0, len(paths)+1), false
	for _, path := range paths {
		pages = pages || path == "docs" || strings.HasSuffix(path, ".md")
		if strings.HasPrefix(path, "!") {
			path = ":" + path
		}
		specs = append(specs, path)
	}
	if !pages {
		specs = append(specs, ":!*.md")
	}
	return specs
}

// some names a few of the files, and how many there are.
func some(files []string) string {
	const most = 3
	if len(files) <= most {
		return strings.Join(files, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(files[:most], " "), len(files)-most)
}

func (r *Runner) git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", r.Root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
