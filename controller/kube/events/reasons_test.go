package events_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

var update = flag.Bool("update", false, "write docs/reference/events.md")

// page returns docs/reference/events.md as the table of reasons is.
func page() string {
	var b strings.Builder
	b.WriteString(`# Events

<!-- Generated: go test ./controller/kube/events -run TestEventReference -update -->

An event names ` + "`" + events.Component + "`" + ` and the node as its source, or the provisioner's
name if the provisioner library records it. An event that a user must act on is recorded once an
hour for each object and cause; others are counted. Events about Nodes are in the namespace
` + "`default`" + `.

| reason | type | object | when | what to do |
|---|---|---|---|---|
`)
	for _, r := range events.Reasons() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Type, r.Object, r.When, r.Action)
	}
	return b.String()
}

func TestEventReference(t *testing.T) {
	const path = "../../../docs/reference/events.md"
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != page() {
		t.Errorf("%s is not what the table of reasons is (%v): go test ./controller/kube/events -run TestEventReference -update", path, err)
	}
}

// recorders are the methods that record events, and the position of the reason in their
// arguments. Those named once have a fixed type.
var recorders = map[string]struct {
	at   int
	kind string
}{"Warn": {3, "Warning"}, "Note": {3, "Normal"}, "Event": {2, ""}, "Eventf": {2, ""}}

// Every reason in the code is a constant of this package, and every row of the table is
// recorded by the code, or by the library.
func TestReasonsAreComplete(t *testing.T) {
	rows := map[string]events.Reason{}
	for _, r := range events.Reasons() {
		if !regexp.MustCompile(`^([A-Z][a-z]+)+$`).MatchString(r.Name) || r.Type != "Normal" && r.Type != "Warning" || r.When == "" || r.Object == "" ||
			r.Type == "Warning" && r.Action == "" || rows[r.Name].Name != "" {
			t.Errorf("the row %+v is not complete, or is there twice", r)
		}
		rows[r.Name] = r
	}
	used := map[string]bool{}
	for _, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if p, ok := s.X.(*ast.Ident); ok && (p.Name == "events" || p.Name == "reasons") {
					used[s.Sel.Name] = true
				}
			}
			if call, ok := n.(*ast.CallExpr); ok {
				check(t, rows, call)
			}
			return true
		})
	}
	library := libraryText(t)
	for name, r := range rows {
		if r.Library && !strings.Contains(library, `"`+name+`"`) {
			t.Errorf("the library does not record %s", name)
		} else if !r.Library && !used[name] {
			t.Errorf("no code uses the reason %s", name)
		}
	}
}

// What an administrator looks for among the Warnings is one: data without its quota, and an object
// that is deleted with its data.
func TestLossesAreWarnings(t *testing.T) {
	for _, r := range events.Reasons() {
		if (r.Name == events.QuotaNotEnforced || r.Name == events.VolumeReleased) && r.Type != "Warning" {
			t.Errorf("%s is %s", r.Name, r.Type)
		}
	}
}

// check reports a call that records an event for a reason without a row, or of another
// type than the row's. A wrapper passes a parameter on, which is named reason.
func check(t *testing.T, rows map[string]events.Reason, call *ast.CallExpr) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	r, ok := recorders[method.Sel.Name]
	if !ok || len(call.Args) <= r.at {
		return
	}
	if method.Sel.Name == "Eventf" && len(call.Args) > 3 && isType(call.Args[2]) {
		r.at = 3 // the recorder of client-go's tools/events, which has another object before the type
	}
	switch arg := call.Args[r.at].(type) {
	case *ast.SelectorExpr:
		row, ok := rows[arg.Sel.Name]
		if !ok {
			t.Errorf("an event has the reason %s, which has no row", arg.Sel.Name)
		} else if r.kind != "" && row.Type != r.kind {
			t.Errorf("an event of the reason %s is a %s, and its row says %s", row.Name, r.kind, row.Type)
		}
	case *ast.Ident:
		if arg.Name != "reason" {
			t.Errorf("an event has the reason %s, which is no constant of package events", arg.Name)
		}
	default:
		t.Errorf("an event has a reason that is no constant of package events: %T", arg)
	}
}

// isType reports whether the argument is the type of an event.
func isType(arg ast.Expr) bool {
	switch arg := arg.(type) {
	case *ast.SelectorExpr:
		return strings.HasPrefix(arg.Sel.Name, "EventType")
	case *ast.Ident:
		return arg.Name == "kind" || arg.Name == "eventtype"
	}
	return false
}

// sources returns the parsed files of all controllers but this package's, tests aside. What the
// operator records about its resource is also in docs/operator.md, which its own test compares.
func sources(t *testing.T) (all []*ast.File) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			filepath.Base(filepath.Dir(path)) == "events" {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		all = append(all, f)
		return err
	})
	if err != nil || len(all) < 50 {
		t.Fatalf("%d files: %v", len(all), err)
	}
	return all
}

// libraryText returns the source of the provisioner library's controller.
func libraryText(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
