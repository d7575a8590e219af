package live_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unbounded are the kinds that tenants make, as many and as large as they like, and PVs, of which a
// cluster may have tens of thousands.
var unbounded = []string{"Pods", "PersistentVolumes", "PersistentVolumeClaims", "Deployments", "Events", "ConfigMaps", "Secrets"}

// wholeLists are the functions whose informers list all objects in one answer, and the files that may
// call them, with the reason.
var wholeLists = map[string]map[string]string{
	"NewFilteredListWatchFromClient":      {"agent/localpath/original.go": "it takes the watch alone"},
	"NewListWatchFromClient":              {},
	"NewSharedInformerFactory":            {},
	"NewSharedInformerFactoryWithOptions": {"disks/watch.go": "one Node, the PVs of a node, and the namespace of the agents"},
}

// readers are the files that make the operator's readers of the API server, and how often they call
// GetAPIReader and installed.Paged.
var readers = map[string]int{"../../operator/manager.go": 2, "../../../cmd/hostpath-operator/removal.go": 1}

// listed are calls that list an unbounded kind with a bound of their own, by file.
var listed = map[string]string{
	"operator/agentstatus/onnode.go": "the pods of one node",
	"plugin/cluster/reader.go":       "a command of a person, in pages",
	"plugin/cluster/installation.go": "a command of a person, in pages",
	"plugin/cluster/events.go":       "a command of a person, in pages",
}

// Lists of unbounded kinds are those of this package, in pages that are bounded in bytes: a typed
// client reads an answer whole, and an informer's first list, too.
func TestUnboundedKindsAreListedInPages(t *testing.T) {
	files := 0
	for _, top := range []string{"agent", "disks", "poolholder", "kube", "operator", "plugin"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "apitest") {
				return err
			}
			files++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
			ast.Inspect(f, func(n ast.Node) bool {
				if what := lists(n, name); what != "" && listed[name] == "" {
					t.Errorf("%s: %s lists objects without a bound: use package live", set.Position(n.Pos()), what)
				}
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "GetAPIReader" && readers[path] == 0 && readers[filepath.ToSlash(path)] == 0 {
					t.Errorf("%s: a reader without a bound", set.Position(n.Pos()))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("%d files", files)
	}
	for path, allowed := range readers {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "GetAPIReader" || s.Sel.Name == "Paged") {
				calls++
			}
			return true
		})
		if calls != allowed {
			t.Errorf("%s: %d calls of GetAPIReader and Paged, want %d: a reader of the API server is one of installed.Paged", path, calls, allowed)
		}
	}
	for text, want := range map[string]bool{
		`c.CoreV1().Pods(ns).List(ctx, o)`: true, `c.CoreV1().Nodes().List(ctx, o)`: false,
		`cache.NewListWatchFromClient(c, "pods", ns, s)`: true, `live.ListPVs(ctx, c, "", f)`: false,
	} {
		e, err := parser.ParseExpr(text)
		if err != nil || (lists(e, "agent/x.go") != "") != want {
			t.Errorf("%s: %q, %v", text, lists(e, "agent/x.go"), err)
		}
	}
}

// lists returns the call by which a node of the tree lists objects without a bound, or "".
func lists(n ast.Node, file string) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if files, whole := wholeLists[method.Sel.Name]; whole && files[file] == "" {
		return method.Sel.Name
	}
	of, ok := method.X.(*ast.CallExpr)
	if !ok || method.Sel.Name != "List" {
		return ""
	}
	if kind, ok := of.Fun.(*ast.SelectorExpr); ok && slices.Contains(unbounded, kind.Sel.Name) {
		return kind.Sel.Name + ".List"
	}
	return ""
}
