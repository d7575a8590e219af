package proof

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Tests of e2e read files of the main module, which go test's cache does not see; those of the main
// module read none of e2e's that it does not see.
func TestCachedResultsAreTrue(t *testing.T) {
	if got := (batch{module: "e2e", packages: []string{"./proof"}}).args(); !slices.Contains(got, "-count=1") {
		t.Errorf("go test of module e2e: %q, want -count=1", got)
	}
	if got := (batch{module: ".", packages: []string{"./volume"}}).args(); slices.Contains(got, "-count=1") {
		t.Errorf("go test of the main module: %q, want results from the cache", got)
	}
}

// Clones share the cache of builds, so all that make starts compiles in the same way, and has the
// user's flags.
func TestMakeCompilesInOneWay(t *testing.T) {
	ours := "-trimpath -gcflags=all=-dwarf=false CGO_ENABLED=0"
	for given, want := range map[string]string{"": ours, "-v": "-v " + ours, "-trimpath -v": "-v " + ours} {
		cmd := exec.Command("make", "--silent", "--no-print-directory", "--eval=flags: ; @echo $$GOFLAGS CGO_ENABLED=$$CGO_ENABLED", "flags")
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), "GOENV=off", "GOFLAGS="+given, "CGO_ENABLED=1", "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("the commands of make have %q where the user has %q: %v, want %q", got, given, err, want)
		}
	}
}

// What the Makefile and the steps install comes from the lists of packages.sh.
func TestPackageGroupsExist(t *testing.T) {
	script, err := os.ReadFile("../packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	used := ""
	for _, s := range slices.Concat(tier1, tier2) {
		used += " " + s.packages
	}
	for _, m := range regexp.MustCompile(`packages\.sh(.*)`).FindAllStringSubmatch(string(makefile), -1) {
		used += m[1]
	}
	groups := 0
	for _, name := range strings.Fields(used) {
		if strings.HasPrefix(name, "@") {
			groups++
			if !strings.Contains(string(script), "\n    "+name+")") {
				t.Errorf("packages.sh has no group %s", name)
			}
		}
	}
	if groups == 0 {
		t.Error("nothing uses a group of packages.sh")
	}
}
