package agent

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An agent ends when its parts have, or three seconds after it was told to: a part that hangs on a
// disk keeps neither the locks of the other pools nor the pod.
func TestGroup(t *testing.T) {
	failed := errors.New("failed")
	for what, row := range map[string]struct {
		ends  func(context.Context) error // a second part, beside one that ends a second after its context
		stop  bool                        // the context ends
		after time.Duration
		err   error
	}{
		"told to":             {ends: func(ctx context.Context) error { <-ctx.Done(); return nil }, stop: true, after: 11 * time.Second},
		"a part hangs":        {ends: func(context.Context) error { time.Sleep(time.Hour); return nil }, stop: true, after: 13 * time.Second},
		"a part fails":        {ends: func(context.Context) error { return failed }, after: time.Second, err: failed},
		"a part fails late":   {ends: func(ctx context.Context) error { <-ctx.Done(); return failed }, stop: true, after: 11 * time.Second, err: failed},
		"a part starts other": {ends: nil, stop: true, after: 12 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began, g := time.Now(), newGroup(ctx)
				g.Run(func(ctx context.Context) { <-ctx.Done(); time.Sleep(time.Second) })
				if row.ends != nil {
					g.Go(row.ends)
				} else {
					g.Run(func(context.Context) {
						time.Sleep(time.Second)
						g.Run(func(ctx context.Context) { <-ctx.Done(); time.Sleep(2 * time.Second) })
					})
				}
				if row.stop {
					time.AfterFunc(10*time.Second, cancel)
				}
				err := g.Wait()
				if took := time.Since(began); took != row.after || !errors.Is(err, row.err) {
					t.Errorf("ended after %v with %v, want %v and %v", took, err, row.after, row.err)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// goroutines are the files below controller/agent that start some which nothing awaits, and why that
// does no harm: what they write goes to no pool and no API server, or they wait for the disk alone.
var goroutines = map[string]string{
	"group.go":             "waits for all others",
	"claims/claims.go":     "events of claims",
	"claims/filter.go":     "memory",
	"claims/stream.go":     "memory",
	"csi/interceptor.go":   "a call that its caller left",
	"csi/kubelet/serve.go": "the socket's file, which Close removes",
	"monitor/scrape.go":    "reads",
	"provision/copy.go":    "events of claims; a copy whose claim is gone is ended in memory",
	"pvs/bind.go":          "ends a queue",
}

// Parts of the agent are started by its group, or awaited by what starts them.
func TestEveryPartIsAwaited(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok && goroutines[path] == "" {
				t.Errorf("%s: a goroutine that nothing awaits: start it with sync.WaitGroup.Go or the agent's group", set.Position(g.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}
