package proof

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// debian reads packages.sh: the packages of each group, and the package of each program that it names.
func debian(t *testing.T) (groups map[string][]string, of map[string]string) {
	t.Helper()
	script, err := os.ReadFile("../packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	groups, of = map[string][]string{}, map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^    (@\w+)\) echo (.*?) ;;`).FindAllStringSubmatch(string(script), -1) {
		groups[m[1]] = strings.Fields(m[2])
	}
	for _, m := range regexp.MustCompile(`(?m)^    ([\w-]+)\) programs (.*?) ;;`).FindAllStringSubmatch(string(script), -1) {
		for _, program := range strings.Fields(m[2]) {
			of[program] = m[1]
		}
	}
	if len(groups) == 0 || of["promtool"] == "" {
		t.Fatalf("packages.sh cannot be read: %v, %v", groups, of)
	}
	return groups, of
}

// programsOf returns the programs that the test files of a package name where they start or look for
// one: those of the files that only a build with these tags includes, if there are any.
func programsOf(t *testing.T, dir string, tags []string) (all []string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		expr, err := constraintOf(tree)
		if err != nil {
			t.Fatal(err)
		}
		if in := (Test{constraint: expr}); !in.in(tags) || len(tags) > 0 && in.in(nil) {
			continue
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Command", "CommandContext", "LookPath"}, f.Sel.Name) {
				return true
			}
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if name, err := strconv.Unquote(lit.Value); err == nil {
						all = append(all, name)
					}
					return true // the first literal is the program, the others are its arguments
				}
			}
			return true
		})
	}
	return all
}

// A step installs what the tests that it runs start, and does not count on another step that ran
// before it on the same machine.
func TestStepsInstallTheirPrograms(t *testing.T) {
	tiers, err := Load("../tiers.txt")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	if problems := tiers.Assign(tests); len(problems) > 0 {
		t.Fatal(problems)
	}
	groups, of := debian(t)
	checked := 0
	for _, r := range tiers.rules {
		for _, pkg := range r.packages() {
			for _, program := range programsOf(t, filepath.Join("../..", pkg), r.tags) {
				want := of[program]
				if want == "" {
					continue // of the base system, or installed by the test itself
				}
				for _, shard := range r.shards {
					checked++
					s := stepNamed(tier2, shard)
					var have []string
					for _, name := range strings.Fields(s.packages) {
						have = append(append(have, groups[name]...), name)
					}
					if !slices.Contains(have, want) {
						t.Errorf("shard %s runs %s, whose tests start %s: add %s to its packages", shard, pkg, program, want)
					}
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d programs were checked", checked)
	}
}
