package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of `go test -json`. A package that does not build has ImportPath in place of Package.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// took is the time of a test, or of a package if it has no test's name.
type took struct {
	seconds     float64
	where, test string
	action      string // pass, fail or skip
}

// times are what was read.
type times struct {
	tests, packages []took
	output          []string // of failed tests
	failed          bool
}

// read reads all events. A line that is not an event is output of the go command.
func read(r io.Reader) (*times, error) {
	t := &times{}
	said := map[[2]string]*strings.Builder{} // by package and test, until that has ended
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			t.add(line, said)
		}
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (t *times) add(line []byte, said map[[2]string]*strings.Builder) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		t.output = append(t.output, string(line))
		return
	}
	key := [2]string{cmp.Or(e.Package, e.ImportPath), e.Test}
	switch e.Action {
	case "output", "build-output":
		if said[key] == nil {
			said[key] = &strings.Builder{}
		}
		said[key].WriteString(e.Output)
	case "pass", "fail", "skip", "build-fail":
		t.ended(e, said[key])
		delete(said, key)
	}
}

func (t *times) ended(e event, said *strings.Builder) {
	if e.Action == "fail" || e.Action == "build-fail" {
		t.failed = true
		if said != nil {
			t.output = append(t.output, said.String())
		}
	}
	switch one := (took{e.Elapsed, e.Package, e.Test, e.Action}); {
	case e.Test != "":
		t.tests = append(t.tests, one)
	case e.Package != "":
		t.packages = append(t.packages, one)
	}
}

// print writes the output of what failed, the slowest tests, and the packages.
func (t *times) print(w io.Writer, most int) {
	for _, text := range t.output {
		fmt.Fprint(w, text)
	}
	slowest(t.tests)
	for _, one := range t.tests[:min(most, len(t.tests))] {
		one.print(w)
	}
	fmt.Fprintln(w)
	slowest(t.packages)
	var sum float64
	for _, one := range t.packages {
		if sum += one.seconds; one.seconds > 0 {
			one.print(w)
		}
	}
	fmt.Fprintf(w, "%8.1f s  all packages, one after the other\n", sum)
}

func slowest(all []took) {
	slices.SortStableFunc(all, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
}

func (o took) print(w io.Writer) {
	where := strings.TrimPrefix(o.where, "kubevirt.io/hostpath-provisioner/")
	mark := ""
	if o.action == "fail" {
		mark = "  FAILED"
	}
	fmt.Fprintf(w, "%8.1f s  %s%s\n", o.seconds, strings.TrimSpace(where+" "+o.test), mark)
}
