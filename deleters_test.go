package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// deleters are the files that delete volumes, each with what proves there that it may. The same is in
// docs/architecture.md.
var deleters = map[string]string{
	"controller/agent/pvs/delete.go":         "a PV that is validated and compared with the record, and it and its claim read live",
	"controller/agent/orphans/remove.go":     "neither a PV nor a claim, read live after the grace, in the cluster of the record",
	"controller/agent/recovery/kept.go":      "a deleted volume that is kept, by the ID, name and time that only the pool's private directory shows",
	"controller/agent/csi/controller.go":     "the handle alone: the provisioner sidecar has compared the PV",
	"controller/agent/csi/inline/volumes.go": "the record is of an inline volume, and the kubelet unpublished it",
	"controller/agent/csi/inline/collect.go": "the record is of an inline volume, and its pod's directory was missing twice",
}

// Few places delete volumes, and a page says by what right. RollBack is not one of them: it removes
// an empty directory, by rmdir(2).
func TestDeletersAreKnown(t *testing.T) {
	found := map[string]bool{}
	for path, text := range sources(t) {
		if !strings.HasPrefix(path, "controller/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if deletesVolume(n) {
				found[path] = true
			}
			return true
		})
	}
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if deleters[path] == "" {
			t.Errorf("%s deletes volumes: ask the function of controller/agent/pvs, or say here and in docs/architecture.md what proves that it may", path)
		}
	}
	for path := range deleters {
		if !found[path] {
			t.Errorf("%s deletes no volume any more", path)
		}
		if !strings.Contains(string(page), "`"+strings.TrimPrefix(path, "controller/agent/")+"`") {
			t.Errorf("docs/architecture.md does not say what proves in %s that a volume may be deleted", path)
		}
	}
	for text, want := range map[string]bool{`pool.DeleteIf(n, f)`: true, `d.pool.Delete(n)`: true, `s.config.Pools.Delete(n, nil)`: true,
		`p.Pools().Delete(n)`: true, `p.DropKept(id)`: true, `client.PersistentVolumes().Delete(ctx, n, o)`: false, `r.Delete(n)`: false} {
		e, err := parser.ParseExpr(text)
		if err != nil || deletesVolume(e) != want {
			t.Errorf("%s: %v, %v", text, deletesVolume(e), err)
		}
	}
}

// deletesVolume reports whether a node of a syntax tree is a call that deletes a volume.
func deletesVolume(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of := ""
	switch x := method.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	case *ast.CallExpr:
		if s, ok := x.Fun.(*ast.SelectorExpr); ok {
			of = s.Sel.Name
		}
	}
	return method.Sel.Name == "DeleteIf" || method.Sel.Name == "DropKept" ||
		method.Sel.Name == "Delete" && slices.Contains([]string{"pool", "pools"}, strings.ToLower(of))
}
