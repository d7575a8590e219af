package simulation_test

import (
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/simulation"
)

func TestShrink(t *testing.T) {
	words := []string{"a", "b", "c", "disk away", "d", "wait", "e", "f", "give up", "g"}
	needs := []string{"disk away", "wait", "give up"}
	asked := 0
	got := simulation.Shrink(words, 100, func(candidate []string) bool {
		asked++
		return !slices.ContainsFunc(needs, func(s string) bool { return !slices.Contains(candidate, s) })
	})
	if !slices.Equal(got, needs) {
		t.Errorf("%q after %d runs, want %q", got, asked, needs)
	}
	if got := simulation.Shrink(words, 3, func([]string) bool { return false }); !slices.Equal(got, words) {
		t.Errorf("%q, and nothing failed", got)
	}
}
