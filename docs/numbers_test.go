package docs

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// found returns what the pattern's groups match in a file.
func found(t *testing.T, path, pattern string) []string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text(t, path))
	if m == nil {
		t.Fatalf("%s has no %s", path, pattern)
	}
	return m[1:]
}

// What pages say of versions and sizes is what the code and the measurement have.
func TestNumbersAreThoseOfTheCode(t *testing.T) {
	goVersion := found(t, "go.mod", `(?m)^go (\d+\.\d+)`)[0]
	for _, page := range []string{"README.md", "docs/install.md"} {
		if got := found(t, page, `\bGo (\d+\.\d+)`)[0]; got != goVersion {
			t.Errorf("%s asks for Go %s, go.mod for %s", page, got, goVersion)
		}
	}
	minors := found(t, "controller/plugin/doctor/cluster.go", `oldestMinor, newestMinor = (\d+), (\d+)`)
	if got := found(t, "docs/install.md", `\| Kubernetes \| 1\.(\d+) to 1\.(\d+);`); !slices.Equal(got, minors) {
		t.Errorf("docs/install.md has Kubernetes %v, kubectl hpp doctor %v", got, minors)
	}
	if got := found(t, "README.md", `Kubernetes 1\.(\d+) or later`)[0]; got != minors[0] {
		t.Errorf("README.md has Kubernetes 1.%s, kubectl hpp doctor 1.%s", got, minors[0])
	}
	measured := found(t, "docs/performance.md", `memory with 10,000 remote volumes, both backends \| ([0-9.]+),`)[0]
	mib, err := strconv.ParseFloat(measured, 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := found(t, "README.md", `(\d+) MiB with 10,000 volumes`)[0]; got != strconv.Itoa(int(math.Round(mib))) {
		t.Errorf("README.md has %s MiB, the measurement %s", got, measured)
	}
}

// docs/README.md is the table of contents: it names every page. An alert's page is named by monitoring.md.
func TestContentsNameEveryPage(t *testing.T) {
	contents, alerts := text(t, "docs/README.md"), text(t, "docs/monitoring.md")
	for _, page := range pages(t) {
		name, err := filepath.Rel(filepath.Join(root, "docs"), page)
		if err != nil || strings.HasPrefix(name, "..") || name == "README.md" {
			continue
		}
		switch dir := filepath.Dir(name); dir {
		case "decisions":
			name = "decisions/README.md"
		case "runbooks":
			if !strings.Contains(alerts, "("+name+")") {
				t.Errorf("docs/monitoring.md does not name %s", name)
			}
			name = "runbooks"
		}
		if !strings.Contains(contents, "("+name+")") {
			t.Errorf("docs/README.md does not name %s", name)
		}
	}
}
