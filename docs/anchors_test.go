package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// anchors returns those of a page's headings, as forges make them.
func anchors(text string) map[string]bool {
	all, not := map[string]bool{}, regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(not.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// leads reports why a page, or its part if the anchor is not empty, is not there.
func leads(t *testing.T, known map[string]map[string]bool, page, anchor string) string {
	t.Helper()
	if known[page] == nil {
		text, err := os.ReadFile(page)
		if err != nil {
			return "there is no such page"
		}
		known[page] = anchors(string(text))
	}
	if anchor != "" && !known[page][anchor] {
		return "the page has no such heading"
	}
	return ""
}

// A part that a page names in words, as "*Part* in [page.md](page.md)", is a heading of that page or
// begins one.
func TestNamedPartsAreThere(t *testing.T) {
	named, found := regexp.MustCompile(`\*([A-Z][^*]*)\*\s+in\s+\[[^]]*\]\(([^)#: ]+\.md)`), 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			part, to := strings.Join(strings.Fields(m[1]), " "), filepath.Join(filepath.Dir(page), m[2])
			other, err := os.ReadFile(to)
			if err != nil || !regexp.MustCompile(`(?m)^#+ `+regexp.QuoteMeta(part)).Match(other) {
				t.Errorf("%s names the part %q of %s, which has no such heading (%v)", page, part, to, err)
			}
		}
	}
	if found < 5 {
		t.Errorf("found %d named parts", found)
	}
}

// Every part of a page that a link, a message, an event, the chart or a rule names is there.
func TestAnchorsLeadSomewhere(t *testing.T) {
	known := map[string]map[string]bool{}
	link := regexp.MustCompile(`\]\(([^)#: ]*)#([^)]+)\)`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if why := leads(t, known, to, m[2]); why != "" {
				t.Errorf("%s links to %s#%s: %s", page, m[1], m[2], why)
			}
		}
	}
	named, found := regexp.MustCompile(`\b(docs/[A-Za-z0-9/_-]+\.md)(?:#([a-z0-9-]+))?`), 0
	for _, top := range []string{"api", "cmd", "controller", "e2e", "manifests", "systemd", "volume"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") ||
				filepath.Ext(path) == ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				found++
				if why := leads(t, known, filepath.Join(root, m[1]), m[2]); why != "" {
					t.Errorf("%s names %s: %s", path, m[0], why)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 40 {
		t.Errorf("found %d names of pages in the code", found)
	}
	if got := anchors("# A\n\n## What a `tenant` writes, the host reads\n"); !got["what-a-tenant-writes-the-host-reads"] {
		t.Errorf("anchors %v", got)
	}
}
