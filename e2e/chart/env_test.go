package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A number of a file arrives as it is.
func TestNumbersInEnv(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("env: {HPP_PURGE_RATE: 10000000, HPP_OVERCOMMIT: 1.5}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := helm(t, append([]string{"template", "--values=" + file}, with(nil)...)...)
	if err != nil || !strings.Contains(out, `value: "10000000"`) || !strings.Contains(out, `value: "1.5"`) {
		t.Errorf("%v\n%.3000s", err, out)
	}
}

// The settings that env may have are those of the page.
func TestEnvIsKnown(t *testing.T) {
	checks, err := os.ReadFile(filepath.Join(chart, "templates", "checks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/reference/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(checks), `$known := splitList " " "`)
	list, _, _ = strings.Cut(list, `"`)
	known := strings.Fields(list)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || !strings.HasPrefix(strings.TrimSpace(cells[2]), "`") {
			continue
		}
		name := strings.Trim(strings.TrimSpace(cells[2]), "`")
		if strings.HasPrefix(name, "LP_") || name == "" || strings.ContainsAny(name, " /:") {
			continue
		}
		if !slices.Contains(known, name) {
			t.Errorf("checks.yaml does not know %s", name)
		}
	}
	if len(known) < 30 {
		t.Errorf("%d settings", len(known))
	}
}
