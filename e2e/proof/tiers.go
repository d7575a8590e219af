package proof

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// Tiers is what tiers.txt says.
type Tiers struct {
	rules []*rule
	// Paths are, by shard, the files and folders whose change puts the shard out of date. One with an
	// exclamation mark before it does not, though a folder that has it is listed.
	Paths map[string][]string
	// Shards are the shards in the order of the file.
	Shards []string
}

// rule is a line of tiers.txt: where the tests that fit it run.
type rule struct {
	number   int // of the line
	pattern  string
	tags     []string
	tests    []string // names, in which * matches anything
	steps    []string // of tier 1
	shards   []string // of tier 2
	assigned []Test
}

// Load reads a file in the format that the head of tiers.txt explains.
func Load(file string) (*Tiers, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := &Tiers{Paths: map[string][]string{}}
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case fields[0] == "shard" && len(fields) > 2:
			t.Shards = append(t.Shards, fields[1])
			t.Paths[fields[1]] = fields[2:]
		case len(fields) == 5:
			t.rules = append(t.rules, &rule{number: i + 1, pattern: fields[0], tags: list(fields[1]), tests: list(fields[2]),
				steps: list(fields[3]), shards: list(fields[4])})
		default:
			return nil, fmt.Errorf("%s:%d: %q has %d fields: want package, tags, tests, steps and shards, or the word shard, "+
				"a name and paths",
				file, i+1, strings.TrimSpace(line), len(fields))
		}
	}
	return t, nil
}

// list splits a field at commas; "-" is the empty list.
func list(field string) []string {
	if field == "-" {
		return nil
	}
	return strings.Split(field, ",")
}

// Assign gives each test to the first rule that fits it. It returns a sentence for each test that
// no rule fits or that no shard runs, for each rule that fits none, for each name of a step or
// shard that does not exist, and for each package whose change would leave a shard that runs its
// tests proven.
func (t *Tiers) Assign(tests []Test) (problems []string) {
	for _, test := range tests {
		i := slices.IndexFunc(t.rules, func(r *rule) bool { return r.fits(test) })
		if i < 0 {
			problems = append(problems, fmt.Sprintf("%s %s: no line of tiers.txt says where it runs", test.Package, test.Name))
			continue
		}
		t.rules[i].assigned = append(t.rules[i].assigned, test)
	}
	for _, r := range t.rules {
		where := fmt.Sprintf("tiers.txt:%d", r.number)
		if len(r.assigned) == 0 {
			problems = append(problems, where+" fits no test: correct or remove it")
		}
		for _, name := range r.tests {
			if !strings.Contains(name, "*") && !slices.ContainsFunc(r.assigned,
				func(test Test) bool { return test.Name == name }) {
				problems = append(problems, fmt.Sprintf("%s names %s, which is not in %s", where, name, r.pattern))
			}
		}
		if len(r.shards) == 0 {
			problems = append(problems, where+" names no shard: a test that no shard runs proves nothing")
		}
		for _, shard := range r.shards {
			if !slices.Contains(t.Shards, shard) {
				problems = append(problems, fmt.Sprintf("%s: no line gives the paths of shard %s", where, shard))
				continue
			}
			for _, pkg := range r.packages() {
				if !t.listed(shard, pkg) {
					problems = append(problems, fmt.Sprintf("%s: shard %s runs tests of %s, which none of its paths has",
						where, shard, pkg))
				}
			}
		}
		for _, step := range r.steps {
			if stepNamed(tier1, step) == nil {
				problems = append(problems, fmt.Sprintf("%s: make test has no step %s", where, step))
			}
		}
	}
	return problems
}

// listed reports whether a shard has a path with a package, or with Go files of its own.
func (t *Tiers) listed(shard, pkg string) bool {
	return slices.ContainsFunc(t.Paths[shard], func(p string) bool {
		return inPattern(pkg, p+"/...") || path.Ext(p) == ".go" && path.Dir(p) == pkg
	})
}

// packages are those of the assigned tests.
func (r *rule) packages() (all []string) {
	for _, test := range r.assigned {
		all = append(all, test.Package)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fits reports whether the rule is for the test: by its package, its name, and its file, which a
// build includes with the rule's tags, and with no fewer.
func (r *rule) fits(t Test) bool {
	if !inPattern(t.Package, r.pattern) || !t.in(r.tags) || len(r.tags) > 0 && t.in(nil) {
		return false
	}
	return slices.ContainsFunc(r.tests, func(name string) bool {
		ok, _ := path.Match(name, t.Name) // a malformed pattern matches nothing, and then the rule fits no test
		return ok
	})
}

// inPattern reports whether a package is in a pattern of the go command, "..." being the main
// module.
func inPattern(pkg, pattern string) bool {
	if pattern == "..." {
		return !strings.HasPrefix(pkg, "e2e")
	}
	base, all := strings.CutSuffix(pattern, "/...")
	return pkg == base || all && strings.HasPrefix(pkg, base+"/")
}

// batch is what one go test command runs.
type batch struct {
	module   string // "." or "e2e"
	tags     string
	packages []string // from the module's root, with ./
	run      string   // expression of -run, "" for all tests
}

const (
	// guest is the tag of tests that write on /dev/vda. The tests of e2e/vm build them and run them
	// in a virtual machine; on this machine they never run.
	guest = "vm"
	// subject is the tag of a test that the test of e2e/power builds and runs: a process that
	// answers its requests.
	subject = "power"
)

// batches returns the commands that run the tests of the rules for which want is true, without
// those that other tests build. Assign has been called.
func (t *Tiers) batches(want func(*rule) bool) []batch {
	type key struct{ module, tags string }
	names, rest := map[key]map[string][]string{}, map[key]map[string]bool{}
	for _, r := range t.rules {
		if slices.Contains(r.tags, guest) || slices.Contains(r.tags, subject) {
			continue
		}
		for _, test := range r.assigned {
			module, pkg := moduleOf(test.Package)
			k := key{module, strings.Join(r.tags, ",")}
			if !want(r) {
				set(rest, k, pkg) // its package may be in the batch of other tests with these tags
				continue
			}
			if names[k] == nil {
				names[k] = map[string][]string{}
			}
			names[k][pkg] = append(names[k][pkg], test.Name)
			if k.tags != "" { // a build with tags has the package's other tests too
				set(rest, k, pkg)
			}
		}
	}
	var all []batch
	for k, packages := range names {
		whole, part := batch{module: k.module, tags: k.tags}, batch{module: k.module, tags: k.tags}
		var only []string
		for pkg, tests := range packages {
			if rest[k][pkg] {
				part.packages = append(part.packages, pkg)
				only = append(only, tests...)
			} else {
				whole.packages = append(whole.packages, pkg)
			}
		}
		slices.Sort(only)
		part.run = "^(" + strings.Join(slices.Compact(only), "|") + ")$"
		for _, b := range []batch{whole, part} {
			if slices.Sort(b.packages); len(b.packages) > 0 {
				all = append(all, b)
			}
		}
	}
	slices.SortFunc(all, func(a, b batch) int { return strings.Compare(a.module+a.tags+a.run, b.module+b.tags+b.run) })
	return all
}

func set[K comparable](sets map[K]map[string]bool, key K, value string) {
	if sets[key] == nil {
		sets[key] = map[string]bool{}
	}
	sets[key][value] = true
}

// moduleOf splits a package into its module and the path there.
func moduleOf(pkg string) (module, path string) {
	if rest, ok := strings.CutPrefix(pkg, "e2e/"); ok {
		return "e2e", "./" + rest
	}
	return ".", "./" + pkg
}
