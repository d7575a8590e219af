package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// waits are calls that make requests or wait.
var waits = regexp.MustCompile(`\.(CoreV1|StorageV1|CoordinationV1|AppsV1|AuthorizationV1|RESTClient|Wait|Take)$|` +
	`^live\.|^wait\.|^cache\.WaitFor|^time\.Sleep$|^sleep\.(For|OrWoken)$`)

// A goroutine that waits for a sync.Mutex stops the clock of a testing/synctest bubble: a mutex that
// is held over a request or a sleep stops it for ever. The test sees what a function does itself.
func TestNoMutexIsHeldOverAWait(t *testing.T) {
	for path, text := range sources(t) {
		if !strings.HasPrefix(path, "controller/") {
			continue
		}
		for _, wait := range waitsWithMutex(t, text) {
			t.Errorf("%s holds a mutex over %s: use sleep.Turn, or copy what the mutex guards", path, wait)
		}
	}
}

// Filesystems that know no flags of renameat2(2) are served by one function.
func TestFlagsOfRenameAreInOnePlace(t *testing.T) {
	for path, text := range sources(t) {
		if strings.Contains(text, "unix.Renameat2(") && path != "volume/tree/rename.go" &&
			!strings.HasPrefix(path, "controller/simulation/") {
			t.Errorf("%s calls renameat2(2): use tree.Rename", path)
		}
	}
}

func TestWaitsWithMutexAreFound(t *testing.T) {
	for body, want := range map[string][]string{
		"mu.Lock(); defer mu.Unlock(); c.CoreV1().Nodes().Get(n)":           {"c.CoreV1"},
		"mu.Lock(); x := y; mu.Unlock(); c.CoreV1().Nodes().Get(n)":         nil,
		"mu.RLock(); if x { mu.RUnlock(); return }; live.Node(c)":           {"live.Node"},
		"mu.Lock(); if x { mu.Unlock() } else { mu.Unlock() }; live.Get(c)": nil,
		"mu.Lock(); out <- x":                                       {"a channel"},
		"go func() { mu.Lock(); sleep.For(ctx, d) }()":              {"sleep.For"},
		"mu.Lock(); go func() { live.Node(c) }(); mu.Unlock(); <-c": nil,
	} {
		if got := waitsWithMutex(t, "package p; func f() { "+body+" }"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// waitsWithMutex returns what the functions of a file wait for between Lock and Unlock, in the order
// of the text. After a block that ends with a jump, the mutex is as before the block.
func waitsWithMutex(t *testing.T, text string) (all []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		ast.Node
		held bool
	}
	held, around := false, []place{}
	ast.Inspect(file, func(n ast.Node) bool {
		what := ""
		switch n := n.(type) {
		case nil:
			last := around[len(around)-1]
			switch b := last.Node.(type) {
			case *ast.FuncDecl, *ast.FuncLit:
				held = last.held
			case *ast.BlockStmt:
				if jumps(b) {
					held = last.held
				}
			}
			around = around[:len(around)-1]
			return true
		case *ast.SendStmt, *ast.SelectStmt:
			what = "a channel"
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				what = "a channel"
			}
		case *ast.CallExpr:
			switch call := types.ExprString(n.Fun); {
			case strings.HasSuffix(call, "Unlock") && !deferred(around[len(around)-1].Node):
				held = false
			case strings.HasSuffix(call, ".Lock"), strings.HasSuffix(call, ".RLock"):
				held = true
			case waits.MatchString(call):
				what = call
			}
		}
		if held && what != "" {
			all = append(all, what)
		}
		around = append(around, place{n, held})
		if _, is := n.(*ast.FuncLit); is {
			held = false
		}
		return true
	})
	return all
}

func deferred(n ast.Node) bool { _, is := n.(*ast.DeferStmt); return is }

func jumps(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}
