package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The user's annotation chooses the node for the provisioners that have it alone, and for no class
// that is not known.
func TestNodeOf(t *testing.T) {
	const user, scheduler = contract.AnnProvisionOnNode, contract.AnnSelectedNode
	for provisioner, heeded := range map[string]bool{contract.HostPathProvisioner: true, contract.SingleNodeProvisioner: true,
		contract.LocalPathProvisioner: false, contract.CSIProvisioner: false, "other": false, "": false, "no class": false} {
		c := &storagev1.StorageClass{Provisioner: provisioner}
		if provisioner == "no class" {
			c = nil
		}
		for _, row := range []struct {
			annotations []string
			node, by    string
		}{
			{nil, "", ""},
			{[]string{scheduler, "scheduled"}, "scheduled", scheduler},
			{[]string{user, "asked"}, "asked", user},
			{[]string{user, "asked", scheduler, "scheduled"}, "asked", user},
			{[]string{user, "", scheduler, "scheduled"}, "scheduled", scheduler},
		} {
			want, wantBy := row.node, row.by
			if row.by == user && !heeded {
				if want, wantBy = "", ""; len(row.annotations) > 2 {
					want, wantBy = "scheduled", scheduler
				}
			}
			node, by := contract.NodeOf(classtest.Claim("1", "c", "", row.annotations...), c)
			if node != want || by != wantBy {
				t.Errorf("provisioner %q, %q: %q by %q, want %q by %q", provisioner, row.annotations, node, by, want, wantBy)
			}
		}
	}
}

// mayReadChoice are the files that read AnnSelectedNode of a claim themselves, with the reason.
var mayReadChoice = map[string]string{
	"agent/claims/held.go":          "keeps both annotations of a claim whose class is not known yet",
	"agent/claims/claims.go":        "writes the copy for the provisioner library",
	"agent/claims/unserved.go":      "the scheduler's choice, after NodeOf has found that it counts",
	"agent/claims/check.go":         "only the scheduler's choice can be given back",
	"agent/provision/client.go":     "only the scheduler's choice can be given back",
	"operator/waiting/giveback.go":  "only the scheduler's choice can be given back",
	"kube/nodechoice/nodechoice.go": "removes the scheduler's choice",
	"kube/contract/nodeof.go":       "is the one place",
	"plugin/explain/bound.go":       "whether the scheduler ever chose, for words about a bound claim",
	"simulation/manager.go":         "is the scheduler",
}

// One function answers which node a claim names. Five places read the annotations, and two of
// them followed one that the agents ignore.
func TestOnePlaceReadsTheNodeOfAClaim(t *testing.T) {
	readers := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if i, ok := n.(*ast.IndexExpr); ok {
				switch key := i.Index.(type) {
				case *ast.SelectorExpr:
					if key.Sel.Name == "AnnSelectedNode" {
						readers[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = true
					}
				case *ast.Ident:
					if key.Name == "AnnSelectedNode" {
						readers[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = true
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(readers)) {
		if mayReadChoice[path] == "" {
			t.Errorf("%s reads a claim's node itself: ask contract.NodeOf, or give the reason in mayReadChoice", path)
		}
	}
	for path := range mayReadChoice {
		if !readers[path] {
			t.Errorf("%s reads no claim's node any more: remove its row", path)
		}
	}
}

// mayWriteChoice are the files that take away AnnSelectedNode, or have a map with it, with the reason.
var mayWriteChoice = map[string]string{
	"agent/claims/held.go":          "a claim in memory",
	"kube/nodechoice/nodechoice.go": "is the one place, and wakes the scheduler again",
	"plugin/plugintest/healthy.go":  "a claim of tests",
	"simulation/act_people.go":      "is a person who names a node",
}

// One function gives claims back to the scheduler. The scheduler may miss the change, and the pod then waits
// for five minutes: whatever removes the choice by itself does not wake the scheduler again.
func TestOnePlaceGivesClaimsBack(t *testing.T) {
	is := func(e ast.Expr) bool {
		switch key := e.(type) {
		case *ast.SelectorExpr:
			return key.Sel.Name == "AnnSelectedNode"
		case *ast.Ident:
			return key.Name == "AnnSelectedNode"
		}
		return false
	}
	writers := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			writes := false
			switch n := n.(type) {
			case *ast.CallExpr: // delete(claim.Annotations, it), and functions that write an annotation
				writes = slices.ContainsFunc(n.Args, is) && !isFormat(n)
			case *ast.KeyValueExpr:
				writes = is(n.Key)
			}
			if writes {
				writers[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(writers)) {
		if mayWriteChoice[path] == "" {
			t.Errorf("%s may write a claim's node itself: call nodechoice, or give the reason in mayWriteChoice", path)
		}
	}
	for path := range mayWriteChoice {
		if !writers[path] {
			t.Errorf("%s writes no claim's node any more: remove its row", path)
		}
	}
}

// isFormat reports whether a call only makes a text.
func isFormat(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (f.Sel.Name == "Sprintf" || f.Sel.Name == "Errorf")
}
