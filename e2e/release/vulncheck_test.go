package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// make vulncheck fails for a vulnerability in code that is called, and only for one. Where the
// database cannot be reached it says that nothing was checked.
func TestVulncheck(t *testing.T) {
	script, err := filepath.Abs("../vulncheck.sh")
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	write(t, filepath.Join(module, "go.mod"), "module example.com/program\n\ngo 1.26.0\n")
	write(t, filepath.Join(module, "main.go"), "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n")
	for _, c := range []struct{ name, env, words string }{
		{"called", "GOVULNDB=" + database(t, "Println"), "the programs call code with known vulnerabilities"},
		{"not called", "GOVULNDB=" + database(t, "Sscan"), "No vulnerabilities found"},
		{"away", "HTTPS_PROXY=http://127.0.0.1:1", "NOT CHECKED: the database https://vuln.go.dev cannot be reached"},
		{"no database", "GOVULNDB=file:///dev/null", "creating client: "},
	} {
		cmd := exec.Command(script, "./...")
		cmd.Dir, cmd.Env = module, append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off", c.env)
		out, err := cmd.CombinedOutput()
		if fails := c.name == "called" || c.name == "no database"; (err != nil) != fails || !strings.Contains(string(out), c.words) {
			t.Errorf("%s: %v, want a failure: %v, and %q in\n%s", c.name, err, fails, c.words, out)
		}
	}
}

// database returns the URL of a database with one vulnerability, in a function of package fmt:
// https://go.dev/doc/security/vuln/database#api
func database(t *testing.T, symbol string) string {
	t.Helper()
	dir := t.TempDir()
	const at = `"2026-01-02T03:04:05Z"`
	for name, text := range map[string]string{
		"index/db.json":      `{"modified":` + at + `}`,
		"index/modules.json": `[{"path":"stdlib","vulns":[{"id":"GO-2026-9999","modified":` + at + `}]}]`,
		"index/vulns.json":   `[{"id":"GO-2026-9999","modified":` + at + `}]`,
		"ID/GO-2026-9999.json": `{"schema_version":"1.3.1","id":"GO-2026-9999","modified":` + at + `,"published":` + at + `,"summary":"made up",
			"database_specific":{"url":"https://example.com"},
			"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":"fmt","symbols":["` + symbol + `"]}]}}]}`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, file, text)
	}
	return "file://" + dir
}
