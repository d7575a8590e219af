package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// No output has a character that a terminal obeys, and each is valid: JSON has the same text, and YAML
// all but the marks of direction.
func TestDataOfAnyText(t *testing.T) {
	for _, text := range []string{"plain", "a\x7fb", "a\u009b2Jb", "a\x1b[2Jb", "a\u202eb", "\u2066x\u2069", "\ufeffbom", "a\U000e0041b", "two\nlines\u0085 and one", "ä ö 漢字", "\xff", "\u061c", "quote\" and \\ back"} {
		for _, format := range []string{"json", "yaml"} {
			var out bytes.Buffer
			if err := Data(&out, format, map[string]string{"key": text, text: "value"}); err != nil {
				t.Errorf("%q: %s: %v", text, format, err)
				continue
			}
			if i := strings.IndexFunc(out.String(), obeyed); i >= 0 {
				t.Errorf("%q: %s has an obeyed character: %q", text, format, out.String())
			}
			var back map[string]string
			err := yaml.Unmarshal(out.Bytes(), &back)
			if format == "json" {
				err = json.Unmarshal(out.Bytes(), &back)
			}
			if want := strings.ToValidUTF8(text, "\ufffd"); err != nil || format == "json" && back["key"] != want ||
				format == "yaml" && !strings.ContainsFunc(text, obeyed) && back["key"] != want {
				t.Errorf("%q: %s: %v, read back as %q", text, format, err, back["key"])
			}
		}
	}
	if err := Data(&bytes.Buffer{}, "xml", ""); err == nil {
		t.Error("xml is printed")
	}
}
