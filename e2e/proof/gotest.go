package proof

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// mainModule is the import path of the main module; that of e2e lies below it.
const mainModule = "kubevirt.io/hostpath-provisioner"

// results are the results of test functions and their rows.
type results struct {
	passed, failed, skipped int
	names                   []string // "PACKAGE TEST/ROW" of what passed
	times                   []took   // of test functions, without their rows
}

// took is how long a test function took.
type took struct {
	name    string
	seconds float64
}

func (r *results) add(o results) {
	r.passed, r.failed, r.skipped = r.passed+o.passed, r.failed+o.failed, r.skipped+o.skipped
	r.names, r.times = append(r.names, o.names...), append(r.times, o.times...)
}

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// goTest runs the tests of a batch, with an environment variable unless env is "". It prints a line
// for each package, the output of what failed, and the names of long tests as they end. The error
// is that of the command.
func (r *Runner) goTest(ctx context.Context, b batch, s step, env string) (results, error) {
	argv := slices.Concat([]string{"go", "test", "-json", "-vet=off"}, s.args, b.args())
	if s.memory {
		argv = slices.Concat([]string{filepath.Join(r.Root, "e2e", "memory.sh")}, argv)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = filepath.Join(r.Root, b.module), os.Environ(), r.Out
	if slices.Contains(s.args, "-race") { // the race detector needs cgo, which the Makefile turns off
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return results{}, err
	}
	if err := cmd.Start(); err != nil {
		return results{}, err
	}
	got, readErr := readEvents(pipe, r.Out)
	return got, errors.Join(readErr, cmd.Wait())
}

// args are the arguments of go test after those of the step.
func (b batch) args() (all []string) {
	if b.module == "e2e" { // go test's cache sees no file outside the module, and these tests read files of the main one
		all = append(all, "-count=1")
	}
	if b.tags != "" {
		all = append(all, "-tags="+b.tags)
	}
	if b.run != "" {
		all = append(all, "-run="+b.run)
	}
	return append(all, b.packages...)
}

// long is how many seconds a test takes at least whose end is printed, so that no step is silent
// for long.
const long = 10

// readEvents reads all events. A line that is not an event is output of the go command.
func readEvents(in io.Reader, out io.Writer) (r results, err error) {
	said := map[[2]string]*strings.Builder{} // by package and test, until that has ended
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.event(line, said, out)
		}
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, err
		}
	}
}

func (r *results) event(line []byte, said map[[2]string]*strings.Builder, out io.Writer) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		fmt.Fprintf(out, "%s", line)
		return
	}
	key := [2]string{cmp.Or(e.Package, e.ImportPath), e.Test}
	switch e.Action {
	case "run", "output", "build-output":
		if said[key] == nil {
			said[key] = &strings.Builder{}
		}
		said[key].WriteString(e.Output)
	case "pass", "fail", "skip", "build-fail":
		if e.Test == "" && e.Action == "fail" {
			r.cutOff(e.Package, said, out)
		}
		r.ended(e, said[key], out)
		delete(said, key)
	}
}

// cutOff counts as failed what still runs as its package ends, after a panic or at go test's time
// limit: no event of its own says so.
func (r *results) cutOff(pkg string, said map[[2]string]*strings.Builder, out io.Writer) {
	var running []string
	for key := range said {
		if key[0] == pkg && key[1] != "" {
			running = append(running, key[1])
		}
	}
	slices.Sort(running)
	for _, test := range running {
		key := [2]string{pkg, test}
		r.ended(event{Action: "fail", Package: pkg, Test: test}, said[key], out)
		delete(said, key)
	}
}

func (r *results) ended(e event, said *strings.Builder, out io.Writer) {
	failed := e.Action == "fail" || e.Action == "build-fail"
	switch {
	case said != nil && (failed || e.Test == ""):
		if text := said.String(); failed || !strings.Contains(text, "[no test files]") {
			fmt.Fprint(out, strings.TrimPrefix(text, "PASS\n"))
		}
	case e.Test != "" && !strings.Contains(e.Test, "/") && e.Elapsed >= long:
		fmt.Fprintf(out, "    %s: %s after %.0f s\n", e.Test, e.Action, e.Elapsed)
	}
	if e.Test != "" && !strings.Contains(e.Test, "/") {
		r.times = append(r.times, took{e.Test, e.Elapsed})
	}
	switch {
	case e.Test == "":
	case failed:
		r.failed++
	case e.Action == "skip":
		r.skipped++
	default:
		r.passed++
		r.names = append(r.names, strings.TrimPrefix(strings.TrimPrefix(e.Package, mainModule), "/")+" "+e.Test)
	}
}
