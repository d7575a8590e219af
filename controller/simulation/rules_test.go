package simulation_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/simulation"
)

// The page on faults has the same rules as the judges.
func TestRulesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]+(?:, [A-Z]+)*) \|`).FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, strings.Split(row[1], ", ")...)
	}
	slices.Sort(documented)
	if rules := slices.Sorted(maps.Keys(simulation.Rules)); !slices.Equal(documented, rules) {
		t.Errorf("docs/reference/reliability.md has the rules %v, want %v", documented, rules)
	}
}
