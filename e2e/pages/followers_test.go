package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFollowersFindTheirCommands finds a page that was changed without the test that follows it, which
// fails on real nodes alone: what a test of e2e/nodes says that the next command begins with does so, in
// the page's order where one function follows the page.
func TestFollowersFindTheirCommands(t *testing.T) {
	byPage := map[string][]Command{}
	eachPage(t, func(path, _ string, commands []Command) { byPage[path] = commands })
	files, err := filepath.Glob(filepath.Join(root, "e2e/nodes/*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	checked := 0
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		var of []Command // the pages of the file
		var later []followed
		for _, decl := range parsed.Decls {
			for _, said := range follows(decl) {
				of = append(of, byPage[said.page]...)
				if checked += len(said.begins); said.page == "" {
					later = append(later, said)
				} else if missing := astray(byPage[said.page], said.begins); missing != "" {
					t.Errorf("%s: after the commands before it, %s has none that begins with %q", filepath.Base(file), said.page, missing)
				}
			}
		}
		for _, said := range later {
			for _, words := range said.begins {
				if len(of) > 0 && astray(of, []string{words}) != "" {
					t.Errorf("%s: no page that it follows has a command that begins with %q", filepath.Base(file), words)
				}
			}
		}
	}
	if checked < 90 {
		t.Errorf("only %d words were looked for: the tests follow pages in another way now", checked)
	}
}

// followed is what a function says of the commands of a page that it follows, in the order of its text.
type followed struct {
	page   string // "" if another function chose it
	begins []string
}

// follows returns what a function says that commands of pages begin with, by page: it calls follow with the
// page's path, and then methods of the result with words that are written out.
func follows(f ast.Decl) (all []followed) {
	all = []followed{{}}
	at := map[string]int{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if call, ok := n.Rhs[0].(*ast.CallExpr); ok && name(call.Fun) == "follow" && literal(call.Args[1]) != "" {
				at[name(n.Lhs[0])] = len(all)
			}
		case *ast.CallExpr:
			if name(n.Fun) == "follow" {
				all = append(all, followed{page: literal(n.Args[1])})
			}
			method, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"run", "skip", "next", "node"}, method.Sel.Name) {
				return true
			}
			words := n.Args
			if method.Sel.Name == "skip" {
				words = words[:1] // the second is the reason
			}
			for _, arg := range words {
				if begins := literal(arg); begins != "" {
					i := at[name(method.X)]
					all[i].begins = append(all[i].begins, begins)
				}
			}
		}
		return true
	})
	return all
}

func name(e ast.Expr) string {
	if ident, ok := e.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// astray returns the first of the words with which no command begins that comes after those before, "" if
// there is none.
func astray(commands []Command, begins []string) string {
	for _, words := range begins {
		i := slices.IndexFunc(commands, func(c Command) bool { return strings.HasPrefix(c.Text, words) })
		if i < 0 {
			return words
		}
		commands = commands[i+1:]
	}
	return ""
}

func TestAstray(t *testing.T) {
	page := []Command{{1, "kubectl get pods"}, {2, "make push"}, {3, "kubectl get pods -o wide"}}
	for words, want := range map[string]string{"kubectl get|make|kubectl get pods -o": "", "make|kubectl": "", "make|make": "make",
		"kubectl get pods -o|make": "make"} {
		if got := astray(page, strings.Split(words, "|")); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}
