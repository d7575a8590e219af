package docs

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// glossary has words that no page, comment or message uses, and what each says in their place: the
// terms of the field, with an actor who acts.
var glossary = []struct {
	pattern, say string
	pages        bool // in pages too
}{
	{`promis(able|es?|ed)`, "allocated, available, allocate", false},
	{`claim loops?`, "provisioning loop", true},
	{`nobody|somebody|whoever`, "the actor", true},
	{`keepers?`, "monitor, reconciler", true},
	{`plain driver`, "driver-only mode", true},
	{`kept data`, "retained volume", true},
	{`examines?|examined`, "validate", true},
	{`heirs?`, "next claim", true},
	{`voice|tells|hears?|speaks?`, "record an event, log, return", true},
	{`lends?`, "provide", true},
	{`family|families`, "pools on one filesystem", true},
	{`undo|undoes|undone|settles?|settled`, "roll back, recover", false},
}

// words returns the findings in a text.
func words(text string, page bool) (found []string) {
	for _, g := range glossary {
		if page && !g.pages {
			continue
		}
		if word := regexp.MustCompile(`(?i)\b(` + g.pattern + `)\b`).FindString(text); word != "" {
			found = append(found, `"`+word+`": say `+g.say)
		}
	}
	return found
}

// Pages, and comments and messages of the programs, use the terms of the field.
func TestWordsAreThoseOfTheField(t *testing.T) {
	files := 0
	for _, top := range []string{"api", "cmd", "controller", "docs", "e2e", "manifests", "systemd", "volume", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(path string, _ os.DirEntry, err error) error {
			source := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && top != "e2e"
			if err != nil || !source && !strings.HasSuffix(path, ".md") {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if !source {
				for i, line := range strings.Split(string(text), "\n") {
					for _, found := range words(line, true) {
						t.Errorf("%s:%d: %s", path, i+1, found)
					}
				}
				return nil
			}
			parts, names := spoken(path, text)
			for _, part := range parts {
				for _, found := range words(names.ReplaceAllString(part, ""), false) {
					t.Errorf("%s: %q: %s", path, part, found)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 400 {
		t.Errorf("%d files", files)
	}
	if got := words("Nobody is told, and Tells nothing.", true); len(got) != 2 {
		t.Errorf("found %q", got)
	}
}

// spoken returns the comments of a file and its strings that are sentences, and what matches the exported names of the
// file, which comments repeat.
func spoken(path string, text []byte) (all []string, names *regexp.Regexp) {
	exported := []string{"none"}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(path, -1, len(text)), text, nil, scanner.ScanComments)
	for {
		switch _, kind, literal := s.Scan(); {
		case kind == token.EOF:
			return all, regexp.MustCompile(`\b(` + strings.Join(exported, "|") + `)\b`)
		case kind == token.IDENT && token.IsExported(literal):
			exported = append(exported, literal)
		case kind == token.COMMENT, kind == token.STRING && strings.Contains(literal, " "):
			all = append(all, literal)
		}
	}
}
