package volume_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// changes are the calls that change a disk. Whether an open does depends on its flags.
const changes = ` unix.Mkdirat unix.Renameat unix.Renameat2 unix.Unlinkat unix.Fchmod unix.Fchmodat unix.Fsync unix.Syncfs unix.Fsetxattr
	unix.Linkat unix.Symlinkat unix.Ftruncate unix.Fallocate unix.Fchown unix.Write unix.Pwrite
	os.WriteFile os.Rename os.Remove os.RemoveAll os.Mkdir os.MkdirAll os.Create
	subvolume createGroup removeGroup assignGroup limitGroup enableSquota setQuota `

// announcing are the names by which a change is announced.
const announcing = " step Step wait change before "

// oneStep are functions that make several changes in one step.
var oneStep = map[string]string{
	"writeTemps": "nobody reads the files before they are renamed",
	"MakeStaged": "one of two",
	"Rename":     "the second follows the first only where the filesystem refused that",
	"change":     "flags that keep something from being removed, of an entry and of its directory, are cleared in any order",
	"unlock":     "a file that is not removed after all gets its flags back",
}

// unannounced are the files of tree.Copy: no caller uses a copy before it is complete.
var unannounced = []string{"copy.go", "copier.go", "content.go", "extents.go", "flags.go", "links.go", "attributes.go"}

// Every change to the disk is announced by a step of its own, so that a kill
// between any two of them is tried: a function announces it, or its callers do.
func TestChangesAreAnnounced(t *testing.T) {
	bare := map[string]bool{} // functions that leave it to their callers
	for _, name := range strings.Fields(changes) {
		bare[name] = true
	}
	for _, dir := range []string{"quota", "tree", "file", "record", "pooldir", "trash", "volumequota", "."} {
		funcs := functions(t, dir)
		for found := -1; found != len(bare); {
			found = len(bare)
			for _, f := range funcs {
				if events := events(f, bare); len(events) > 0 && !strings.Contains(announcing, events[0]) {
					bare[key(f)] = true
				}
			}
		}
		for _, f := range funcs {
			if dir == "." && bare[key(f)] && f.Name.IsExported() {
				t.Errorf("%s changes the disk and announces it nowhere", f.Name.Name)
			}
			var last string
			for _, e := range events(f, bare) {
				if last != "" && !strings.Contains(announcing, last) && !strings.Contains(announcing, e) && oneStep[f.Name.Name] == "" {
					t.Errorf("%s: no step between %s and %s", f.Name.Name, last, e)
				}
				last = e
			}
		}
		// The next package calls what is exported by the name of this one.
		for name := range maps.Clone(bare) {
			if ast.IsExported(name) {
				bare[dir+"."+name] = true
			}
			if !strings.Contains(changes, " "+name+" ") && !strings.Contains(name, ".") {
				delete(bare, name)
			}
		}
	}
}

func functions(t *testing.T, dir string) (funcs []*ast.FuncDecl) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	ok(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(unannounced, filepath.Base(name)) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		ok(t, err)
		for _, d := range f.Decls {
			if f, isFunc := d.(*ast.FuncDecl); isFunc && f.Body != nil {
				funcs = append(funcs, f)
			}
		}
	}
	return funcs
}

// key is how a function is called: a method by whatever value it has.
func key(f *ast.FuncDecl) string {
	if f.Recv != nil {
		return "_." + f.Name.Name
	}
	return f.Name.Name
}

// events are the steps and the changes of a function, as they are written.
func events(f *ast.FuncDecl, bare map[string]bool) (events []string) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall {
			return true
		}
		name := types.ExprString(call.Fun)
		short := name[strings.LastIndex(name, ".")+1:]
		switch {
		case strings.Contains(announcing, " "+short+" "):
			events = append(events, " "+short+" ")
		case bare[name], name != short && bare["_."+short], name == "tree.Open" && creates(call):
			events = append(events, short)
		case name == "f.Write", name == "f.Chmod", name == "f.Sync", name == "ioctl" && strings.Contains(fmt.Sprint(call.Args[1]), "fsSetXattr"):
			events = append(events, short)
		}
		return true
	})
	return events
}

func creates(open *ast.CallExpr) bool {
	flags := types.ExprString(open.Args[2])
	return strings.Contains(flags, "O_CREAT") || strings.Contains(flags, "O_TRUNC")
}
