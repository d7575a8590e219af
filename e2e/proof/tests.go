package proof

import (
	"cmp"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Test is a test function or a fuzz target.
type Test struct {
	Package    string // path of its directory from the root of the tree
	Name       string
	constraint constraint.Expr // of its file, nil if it has none
}

// in reports whether a build with these tags includes the test.
func (t Test) in(tags []string) bool {
	return t.constraint == nil || t.constraint.Eval(func(tag string) bool {
		return tag == "linux" || slices.Contains(tags, tag)
	})
}

// Find returns the tests of all files below root, whatever their build tags, sorted by package and
// name.
func Find(root string) ([]Test, error) {
	var all []Test
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" ||
			d.Name() == "_artifacts"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		tests, err := testsOf(path, dir)
		all = append(all, tests...)
		return err
	})
	slices.SortFunc(all, func(a, b Test) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// testsOf returns the tests of one file.
func testsOf(path, dir string) ([]Test, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	expr, err := constraintOf(file)
	if err != nil {
		return nil, err
	}
	var all []Test
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv == nil && isTest(f) {
			all = append(all, Test{Package: dir, Name: f.Name.Name, constraint: expr})
		}
	}
	return all, nil
}

// isTest reports whether the go command runs the function as a test or a fuzz target.
func isTest(f *ast.FuncDecl) bool {
	params := f.Type.Params.List
	if len(params) != 1 || len(params[0].Names) != 1 {
		return false
	}
	star, ok := params[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := star.X.(*ast.SelectorExpr)
	return ok && (strings.HasPrefix(f.Name.Name, "Test") && selector.Sel.Name == "T" ||
		strings.HasPrefix(f.Name.Name, "Fuzz") && selector.Sel.Name == "F")
}

func constraintOf(file *ast.File) (constraint.Expr, error) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() < file.Package && constraint.IsGoBuild(c.Text) {
				return constraint.Parse(c.Text)
			}
		}
	}
	return nil, nil
}
