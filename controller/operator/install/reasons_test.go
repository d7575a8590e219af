package install

import (
	"errors"
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

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// TestReasonsAreInThePage compares the reasons of conditions and events with docs/reference/operator.md.
func TestReasonsAreInThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../*.go")
	below, failed := filepath.Glob("../*/*.go")
	deeper, again := filepath.Glob("../*/*/*.go")
	if err = errors.Join(err, failed, again); err != nil {
		t.Fatal(err)
	}
	files = slices.Concat(files, below, deeper)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, reason := range reasonsIn(n) {
				found++
				if _, known := reasons[reason]; isVerdict(n) && !known {
					t.Errorf("%s: the reason %s has no conditions", file, reason)
				}
				if !strings.Contains(string(page), reason) {
					t.Errorf("%s: docs/reference/operator.md does not have the reason %s", file, reason)
				}
			}
			return true
		})
	}
	if found < 12 {
		t.Errorf("%d reasons were found in the code", found)
	}
}

// word is a reason, or the end of one.
var word = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

func isVerdict(n ast.Node) bool {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return false
	}
	kind, ok := literal.Type.(*ast.Ident)
	return ok && kind.Name == "verdict"
}

// reasonsIn returns the reasons in a verdict, in a refusal, or in a call that records an event.
func reasonsIn(n ast.Node) (all []string) {
	var parts []ast.Expr
	switch n := n.(type) {
	case *ast.CompositeLit:
		if kind, ok := n.Type.(*ast.Ident); ok && kind.Name == "refusal" {
			parts = n.Elts
		} else if isVerdict(n) {
			for _, part := range n.Elts {
				if field := part.(*ast.KeyValueExpr); field.Key.(*ast.Ident).Name == "reason" {
					parts = append(parts, field.Value)
				}
			}
		}
	case *ast.CallExpr:
		if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Eventf" {
			parts = n.Args[3:4]
		} else if ok && method.Sel.Name == "Event" {
			parts = n.Args[1:2]
		}
	}
	for _, part := range parts {
		if sum, ok := part.(*ast.BinaryExpr); ok {
			part = sum.Y
		}
		if constant, ok := part.(*ast.SelectorExpr); ok && slices.ContainsFunc(events.Reasons(), func(r events.Reason) bool { return r.Name == constant.Sel.Name }) {
			all = append(all, constant.Sel.Name)
		}
		if literal, ok := part.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && word.MatchString(text) {
				all = append(all, text)
			}
		}
	}
	return all
}
