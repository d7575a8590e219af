package proof

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// table prints a line for each outcome and for all, which took that time, and returns an error that
// names those that failed.
func (r *Runner) table(title string, wall time.Duration, all []outcome) error {
	if len(all) == 0 {
		return errors.New("no such " + title + "; `make test-help` lists them")
	}
	var sum outcome
	var failed []string
	const row = "%-10s %8.0f %8s %8d%s\n"
	fmt.Fprintf(r.Out, "\n%-10s %8s %8s %8s\n", title, "seconds", "CPU s", "tests")
	for _, o := range all {
		cpu, mark := fmt.Sprintf("%.0f", o.cpu.Seconds()), ""
		if o.joined != "" {
			cpu, mark = "", "  beside "+o.joined
		}
		if o.err != nil {
			failed, mark = append(failed, o.step), mark+"  FAILED"
		}
		fmt.Fprintf(r.Out, row, o.step, o.wall.Seconds(), cpu, o.results.passed+o.results.failed, mark)
		sum.cpu += o.cpu
		sum.results.add(o.results)
	}
	n := sum.results
	r.slowest(n.times)
	fmt.Fprintf(r.Out, row, "all", wall.Seconds(), fmt.Sprintf("%.0f", sum.cpu.Seconds()), n.passed+n.failed, "")
	fmt.Fprintf(r.Out, "%d passed, %d failed, %d skipped\n", n.passed, n.failed, n.skipped)
	err := r.executed(n.names)
	if len(failed) > 0 {
		err = errors.Join(fmt.Errorf("failed: %s", strings.Join(failed, ", ")), err)
	}
	return err
}

// executed writes the names of the tests and rows that passed to _artifacts/executed.txt.
func (r *Runner) executed(names []string) error {
	dir := filepath.Join(r.Root, "_artifacts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	slices.Sort(names)
	return os.WriteFile(filepath.Join(dir, "executed.txt"), []byte(strings.Join(slices.Compact(names), "\n")+"\n"), 0o644)
}

// slowest prints the ten slowest tests. Those of one package run beside each other, so their times
// do not add up.
func (r *Runner) slowest(all []took) {
	slices.SortFunc(all, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	var words []string
	for _, one := range all[:min(10, len(all))] {
		words = append(words, fmt.Sprintf("%s %.0f", one.name, one.seconds))
	}
	if len(words) > 0 {
		fmt.Fprintf(r.Out, "slowest tests, in seconds: %s\n", strings.Join(words, ", "))
	}
}
