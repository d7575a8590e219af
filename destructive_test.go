package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// destructive matches what asks people to destroy something, or to take away what protects it.
var destructive = regexp.MustCompile(`(?i)\bkubectl [^.;]*\b(delete (pv|pvc|node|lease|namespace|crd|hostpathprovisioner)|drain)\b|` +
	`"?finalizers?"?: ?null|deleteFromPrimitiveList/finalizers|\bremove (the|its|their) finalizers?|\borphans remove\b|--force\b|\bmkfs\.|\bwipefs\b|\brm -|` +
	`hostpath-provisioner\.kubevirt\.io/(give-up|delete-volume)|` +
	`\bdelete (the |that |this |its |their |a |old |other )*(claim|PV|volume|Lease|pool|disk|data|pod)s?\b|\bdelete (it|them)\b|` +
	`\b(create|make) (the|its) filesystem again\b`)

// asks returns what a text asks for, "" if it destroys nothing.
func asks(text string) string {
	at := destructive.FindStringIndex(text)
	if at == nil {
		return ""
	}
	words := strings.Join(strings.Fields(text[at[0]:]), " ")
	if r := []rune(words); len(r) > 60 {
		words = string(r[:60])
	}
	return strings.TrimSpace(words)
}

// textsOf returns the texts of a Go file: literals, with those that + joins as one. What is
// computed is an ellipsis in them, and a selector has its name.
func textsOf(t *testing.T, source string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var join func(e ast.Expr) string
	join = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
				return text
			}
		case *ast.BinaryExpr:
			return join(e.X) + join(e.Y)
		case *ast.ParenExpr:
			return join(e.X)
		}
		return "…"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.BinaryExpr:
			if e.Op == token.ADD {
				all = append(all, join(e))
				return false
			}
		case *ast.BasicLit:
			all = append(all, join(e))
		}
		return true
	})
	return all
}

// part returns the process to which a file belongs: a text that moves within it stays listed.
func part(path string) string {
	parts := strings.Split(path, "/")
	if parts[0] == "controller" {
		return "controller/" + parts[1]
	}
	return parts[0]
}

// destructiveTexts returns the destructive texts of the programs, and of their pages.
func destructiveTexts(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for path, text := range sources(t) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "e2e/") || strings.HasPrefix(path, "controller/simulation/") {
			continue
		}
		for _, text := range textsOf(t, text) {
			if a := asks(text); a != "" {
				found[part(path)+"\t"+a] = true
				if strings.HasPrefix(path, "controller/plugin/") && !slices.Contains(advisers, filepath.Dir(path)) {
					t.Errorf("%s: %s: the plugin's destructive texts are in controller/plugin/advice", path, a)
				}
			}
		}
	}
	err := filepath.WalkDir("docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || slices.Contains(explaining, path) || strings.HasPrefix(path, "docs/decisions/") {
			return err
		}
		data, err := os.ReadFile(path)
		for line := range strings.Lines(string(data)) {
			if a := asks(line); a != "" {
				found[path+"\t"+a] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Each text that asks people to destroy something stands in testdata/destructive.txt beside what must
// be true before it is given, as part, text and precondition. Advice to people destroys like a call
// does: who adds a text shows that its precondition is proven where the text is made. A text of the
// plugin belongs into controller/plugin/advice.
func TestDestructiveTexts(t *testing.T) {
	data, err := os.ReadFile("testdata/destructive.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		if len(parts) != 3 || len(parts[2]) < 10 {
			t.Errorf("testdata/destructive.txt: %q is not part, text and precondition", line)
			continue
		}
		listed[parts[0]+"\t"+parts[1]] = true
	}
	found := destructiveTexts(t)
	for _, text := range slices.Sorted(maps.Keys(found)) {
		if !listed[text] {
			t.Errorf("a new destructive text: add it, and what must be true before it is given, to testdata/destructive.txt: %s", text)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(listed)) {
		if !found[text] {
			t.Errorf("testdata/destructive.txt has a text that is gone: %s", text)
		}
	}
}

// advisers are the packages of the plugin with such texts: report has the flag --force of its own
// archive, and doctor an error about claims of its own.
var advisers = []string{"controller/plugin/advice", "controller/plugin/report", "controller/plugin/doctor"}

// The test sees a text that is put together, and none that asks for nothing.
func TestAsks(t *testing.T) {
	for source, want := range map[string]string{
		`"restore it, or delete " + "the claim"`:                             "delete the claim",
		`fmt.Sprintf("kubectl -n %s delete pvc %s", a, b)`:                   "kubectl -n %s delete pvc %s",
		`"kubectl patch pv " + name + " -p '{\"finalizers\":null}'"`:         `"finalizers":null}'`,
		`"run orphans remove " + name`:                                       "orphans remove …",
		`"kubectl annotate node hostpath-provisioner.kubevirt.io/give-up=x"`: "hostpath-provisioner.kubevirt.io/give-up=x",
		`"it is being deleted"`:                                              "", `"deleted claims"`: "",
	} {
		var got []string
		for _, text := range textsOf(t, "package p\nvar v = "+source) {
			if a := asks(text); a != "" {
				got = append(got, a)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// explaining are pages that describe what the programs do and ask people for nothing, and those that
// are generated from texts of programs.
var explaining = []string{"docs/architecture.md", "docs/on-disk-format.md", "docs/reliability.md", "docs/reference/reliability.md", "docs/reference/events.md",
	"docs/reference/flags.md", "docs/reference/metrics.md", "docs/threat-model.md", "docs/reference/threat-model.md",
	"docs/performance.md"}
