package events

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var topicName = regexp.MustCompile(`^([tT]opic|refused)[A-Z]`)

// topics returns the topics that the file has as constants, or where it records an event.
func topics(t *testing.T, path string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, text)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if topicName.MatchString(name.Name) && i < len(n.Values) {
					add(n.Values[i])
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Warn" || f.Sel.Name == "Note") && len(n.Args) == 5 {
				add(n.Args[2])
			}
		}
		return true
	})
	return all
}

// The second of two events with one topic about one object is dropped, so two packages that have one
// topic keep each other's events from being seen.
func TestTopicsBelongToOnePackage(t *testing.T) {
	of := map[string]map[string]bool{} // packages by topic
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, topic := range topics(t, path) {
			if of[topic] == nil {
				of[topic] = map[string]bool{}
			}
			of[topic][filepath.Dir(path)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(of) < 20 {
		t.Errorf("%d topics were found", len(of))
	}
	for topic, packages := range of {
		if len(packages) > 1 {
			t.Errorf("topic %q is in %v: give one of them another", topic, slices.Sorted(maps.Keys(packages)))
		}
	}
}

// A text is recorded although another one of the topic was; numbers alone make no other text.
func TestWorded(t *testing.T) {
	first := Worded("source", "the claim is gone")
	if first == "source" || first == Worded("source", "the claim is in use") || first == Worded("space", "the claim is gone") {
		t.Errorf("%q is that of another event", first)
	}
	if a, b := Worded("space", "10 of 20 bytes"), Worded("space", "9 of 200 bytes"); a != b {
		t.Errorf("%q and %q", a, b)
	}
}
