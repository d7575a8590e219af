package proof

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// ahead are the modules whose version e2e/go.mod may have above that of go.mod, each with the Kubernetes module that requires it.
var ahead = map[string]string{}

// The end-to-end tests link what the product links. The go command compiles a module once for both only if they have the same
// version of it, and of all that it imports.
func TestModulesHaveOneVersion(t *testing.T) {
	product, tests := required(t, "../.."), required(t, "..")
	shared := 0
	for path, version := range tests {
		want, ok := product[path]
		if !ok {
			continue
		}
		shared++
		if why := ahead[path]; version == want && why != "" {
			t.Errorf("%s is %s in both: remove it from the exceptions of this test", path, version)
		} else if version != want && why == "" {
			t.Errorf("%s is %s in go.mod and %s in e2e/go.mod: run `go get %s@VERSION && go mod tidy` with one version in both", path, want, version, path)
		}
	}
	if shared == 0 {
		t.Error("go.mod and e2e/go.mod have no module in common")
	}
}

// required returns the versions by module that the go.mod of a directory requires, directly or not.
func required(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod edit -json in %s: %v: %s", dir, err, stderr.String())
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Path] = r.Version
	}
	return versions
}
