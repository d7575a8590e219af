// Package docs holds the rules for the pages of the repository.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a page may be at most. Blocks of code are not counted as words; tables are, but they do not wrap.
const (
	pageWords     = 1500
	drillWords    = 800
	lookedUpWords = 5500
	readmeLines   = 120
	lineWidth     = 100
)

// lookedUp are the pages and directories that people look things up in, and read no page of as a whole. Pages that they
// read through have a smaller limit.
var lookedUp = []string{"docs/reference", "docs/decisions", "docs/runbooks", "docs/on-disk-format.md", "docs/architecture.md",
	"e2e/README.md", "manifests/chart/README.md", "controller/simulation/testdata"}

// drills are the pages of an adopter's trial, which are followed step by step.
var drills = []string{"docs/backup.md", "docs/databases.md", "docs/filesystems.md", "docs/gitops.md", "docs/kubevirt.md", "docs/limits.md",
	"docs/look.md", "docs/node-maintenance.md", "docs/tenancy.md", "docs/versions.md"}

// limit returns how many words a page may have.
func limit(page string) int {
	for _, drill := range drills {
		if page == filepath.Join(root, drill) {
			return drillWords
		}
	}
	for _, path := range lookedUp {
		if path = filepath.Join(root, path); page == path || strings.HasPrefix(page, path+string(filepath.Separator)) {
			return lookedUpWords
		}
	}
	return pageWords
}

// countWords returns the words of a page with those of its tables, and without those of its code.
func countWords(text string) (words int) {
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced && !strings.HasPrefix(line, "    ") {
			for _, word := range strings.Fields(strings.ReplaceAll(line, "|", " ")) {
				if strings.Trim(word, "-") != "" {
					words++
				}
			}
		}
	}
	return words
}

// root is that of the repository.
const root = ".."

// pages returns the paths of all pages.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "_artifacts"):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	return all
}

// prose returns the lines that are neither table nor code, with their numbers.
func prose(text string) map[int]string {
	lines, fenced := map[int]string{}, false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") {
			lines[i+1] = line
		}
	}
	return lines
}

func TestPagesAreShort(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range prose(string(text)) {
			if utf8.RuneCountInString(line) > lineWidth && len(strings.Fields(line)) > 1 {
				t.Errorf("%s:%d is wider than %d; wrap it", page, number, lineWidth)
			}
		}
		changes := page == filepath.Join(root, "CHANGELOG.md") // grows by its nature, and is not read as a whole
		if words := countWords(string(text)); words > limit(page) && !changes {
			t.Errorf("%s has %d words with its tables, more than %d; split it", page, words, limit(page))
		}
		if lines := strings.Count(string(text), "\n"); page == filepath.Join(root, "README.md") && lines > readmeLines {
			t.Errorf("README.md has %d lines, more than %d", lines, readmeLines)
		}
	}
}

func TestCountWords(t *testing.T) {
	if got := countWords("# A page\n\nTwo words.\n\n| a | b |\n|---|---|\n| `c` | d e |\n\n```sh\nnot counted\n```\n\n    nor this\n"); got != 10 {
		t.Errorf("%d words, want 10", got)
	}
	if limit(filepath.Join(root, "docs/reference/flags.md")) != lookedUpWords || limit(filepath.Join(root, "docs/references.md")) != pageWords ||
		limit(filepath.Join(root, "docs/backup.md")) != drillWords {
		t.Error("a page has the limit of another kind")
	}
}

// Every link to a file of the repository leads somewhere, and so does every path that a page names.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	named := regexp.MustCompile("`((?:docs|manifests|systemd|controller|volume|cmd|e2e)/[A-Za-z0-9_./-]+)`")
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s: %v", page, m[1], err)
			}
		}
	}
}

// Of an answer that is not 200 kubectl get --raw prints the code alone, so no page may send a reader to /readyz for its reasons.
func TestPagesAskForStatus(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "proxy/readyz") {
			t.Errorf("%s: kubectl get --raw .../proxy/readyz prints no reasons while it answers 503; name .../proxy/status", page)
		}
	}
}

// A copy that fails, such as one on a full disk, must not take the place of the original: lines of a page are pasted together.
func TestPagesCopyBeforeTheyRemove(t *testing.T) {
	copies, removes := regexp.MustCompile(`^\s*(cp|tar|dd|rsync)\s.*[^&]$`), regexp.MustCompile(`^\s*(mv|rm)\s`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i := range len(lines) - 1 {
			if copies.MatchString(lines[i]) && removes.MatchString(lines[i+1]) {
				t.Errorf("%s:%d: if the copy fails, the next line removes the original: join them with &&", page, i+1)
			}
		}
	}
}
