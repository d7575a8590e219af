// Command measure prints how large the production code is: `make measure`. Code for tests is not
// counted, blank lines and comments are.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// pkg has the numbers of one folder of production code.
type pkg struct {
	dir          string
	files, lines int
	exported     int // names outside of tests, methods included
}

// tree has the numbers of all folders together.
type tree struct {
	packages      map[string]*pkg
	interfaceName string // of the largest interface
	methods       int
	flags         int
}

// table is the file with the flags of the agent; other commands have their own.
const table = "controller/kube/settings/agent.go"

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := measure(root); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measure(root string) error {
	t := tree{packages: map[string]*pkg{}}
	for _, top := range []string{"cmd", "controller", "volume"} {
		if err := t.walk(root, top); err != nil {
			return err
		}
	}
	return t.print()
}

// walk counts the production code below a folder.
func (t *tree) walk(root, top string) error {
	return filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.Contains(path, "testdisk") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if t.packages[dir] == nil {
			t.packages[dir] = &pkg{dir: dir}
		}
		p := t.packages[dir]
		p.files++
		p.lines += bytes.Count(text, []byte("\n"))
		for _, d := range file.Decls {
			p.exported += exported(d)
		}
		t.inspect(path, file)
		return nil
	})
}

// exported returns how many exported names a declaration has. A method counts if
// its type is exported as well.
func exported(d ast.Decl) (n int) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || receiver(d.Recv.List[0].Type)) {
			n++
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				n += count(s.Name)
			case *ast.ValueSpec:
				n += count(s.Names...)
			}
		}
	}
	return n
}

func count(names ...*ast.Ident) (n int) {
	for _, name := range names {
		if name.IsExported() {
			n++
		}
	}
	return n
}

// receiver reports whether the type of a receiver is exported.
func receiver(t ast.Expr) bool {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	name, ok := t.(*ast.Ident)
	return ok && name.IsExported()
}

// inspect looks for the largest interface, and for flags: the rows of the agent's table.
func (t *tree) inspect(path string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if i, ok := n.Type.(*ast.InterfaceType); ok && i.Methods.NumFields() > t.methods {
				t.methods, t.interfaceName = i.Methods.NumFields(), filepath.Dir(path)+"."+n.Name.Name
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Flag" && path == table {
				t.flags++
			}
		}
		return true
	})
}

func (t *tree) print() error {
	var all []*pkg
	lines := 0
	for _, p := range t.packages {
		all = append(all, p)
		lines += p.lines
	}
	by := func(key func(*pkg) int) *pkg {
		slices.SortFunc(all, func(a, b *pkg) int { return cmp.Compare(key(a), key(b)) })
		return all[len(all)-1]
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	files := by(func(p *pkg) int { return p.files })
	fmt.Fprintf(out, "files in a package, most\t%d\t%s\n", files.files, files.dir)
	most := by(func(p *pkg) int { return p.lines })
	fmt.Fprintf(out, "lines in a package, most\t%d\t%s\n", most.lines, most.dir)
	fmt.Fprintf(out, "lines in a package, median\t%d\t%d packages\n", all[len(all)/2].lines, len(all))
	if v := t.packages["volume"]; v != nil {
		fmt.Fprintf(out, "exported names of volume itself\t%d\tmethods included\n", v.exported)
	}
	fmt.Fprintf(out, "methods of an interface, most\t%d\t%s\n", t.methods, t.interfaceName)
	fmt.Fprintf(out, "flags of the agent\t%d\t\n", t.flags)
	fmt.Fprintf(out, "production lines\t%d\t\n", lines)
	return out.Flush()
}
