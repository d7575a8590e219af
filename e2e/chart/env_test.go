package chart

import (
	"os"
	"path/filepath"
	"regexp"
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

// A value at which no agent starts is refused where the page has a number, a duration or a boolean as the
// default, and that default is not.
func TestEnvThatEndsAgents(t *testing.T) {
	typed := regexp.MustCompile(`^([0-9][0-9a-z.]*|true|false)$`)
	asked := 0
	for _, row := range settingsOf(t) {
		if !typed.MatchString(row.standard) {
			continue
		}
		asked++
		if out, err := template(t, "env."+row.name+"=1d"); err == nil || !strings.Contains(out, row.name+` is "1d": set it to `) {
			t.Errorf("%s=1d: %v, %.300s", row.name, err, out)
		}
		if out, err := template(t, "env."+row.name+"="+row.standard); err != nil {
			t.Errorf("the default of %s, %s: %s", row.name, row.standard, out)
		}
	}
	if asked < 10 {
		t.Errorf("asked about %d settings", asked)
	}
}

type setting struct{ name, standard string }

// settingsOf returns the settings of the agent that the page of flags has.
func settingsOf(t *testing.T) (all []setting) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[2]), "`") {
			continue
		}
		name := strings.Trim(strings.TrimSpace(cells[2]), "`")
		if !strings.HasPrefix(name, "LP_") && name != "" && !strings.ContainsAny(name, " /:") {
			all = append(all, setting{name, strings.Trim(strings.TrimSpace(cells[3]), "`")})
		}
	}
	return all
}

// The settings that env may have are those of the page.
func TestEnvIsKnown(t *testing.T) {
	checks, err := os.ReadFile(filepath.Join(chart, "templates", "checks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(checks), `$known := splitList " " "`)
	list, _, _ = strings.Cut(list, `"`)
	known := strings.Fields(list)
	for _, row := range settingsOf(t) {
		if !slices.Contains(known, row.name) {
			t.Errorf("checks.yaml does not know %s", row.name)
		}
	}
	if len(known) < 30 {
		t.Errorf("%d settings", len(known))
	}
}
