package proof

import (
	"fmt"
	"slices"
	"strings"
)

// List prints every test with its steps of tier 1 and its shards of tier 2.
func (r *Runner) List() error {
	for _, line := range r.Tiers.rules {
		for _, test := range line.assigned {
			fmt.Fprintf(r.Out, "%s %s: tier 1 %s, tier 2 %s\n", test.Package, test.Name, orNone(line.steps), orNone(line.shards))
		}
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}

// Help prints the steps and shards, with how many tests each runs.
func (r *Runner) Help() error {
	count := func(has func(*rule) bool) (n int) {
		for _, line := range r.Tiers.rules {
			if has(line) {
				n += len(line.assigned)
			}
		}
		return n
	}
	fmt.Fprintln(r.Out, "make test runs tier 1; make test STEPS=\"unit disk\" some of its steps:")
	for _, s := range tier1 {
		n := count(func(line *rule) bool { return slices.Contains(line.steps, s.name) })
		fmt.Fprintf(r.Out, "  %-10s %4d  %s\n", s.name, n, s.what)
	}
	fmt.Fprintln(r.Out, "make test-full runs tier 2; make test-full SHARD=disk one of its shards:")
	for _, s := range tier2 {
		n := count(func(line *rule) bool { return slices.Contains(line.shards, s.name) })
		fmt.Fprintf(r.Out, "  %-10s %4d  %s\n", s.name, n, s.what)
	}
	return nil
}
