package localpath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if _, err := Open(file, "node-01"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		`{"nodePathMap":[{"node":"node-01","paths":["/a","/b"]}]}`: "",
		`{"nodePathMap":[{"node":"node-01","paths":["b"]}]}`:       file + ": config.json",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(file, "node-01")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want words %q", text, err, want)
		}
		if err == nil && len(f.Paths().All()) != 2 {
			t.Errorf("paths %q", f.Paths().All())
		}
	}
}

func TestLacks(t *testing.T) {
	p := Paths{node: "node-01", every: []string{"/a", "/b"}}
	if err := p.lacks([]string{"/b"}); err != nil {
		t.Error(err)
	}
	if err := p.lacks([]string{"/b", "/c"}); err == nil || !strings.Contains(err.Error(), "path /c, which has volumes") {
		t.Error(err)
	}
}
