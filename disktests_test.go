package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	withDiskTag = regexp.MustCompile(`(?m)^//go:build .*\bdisk\b`)
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// `make test-disk` selects the tests of files with the tag disk by name, so each of these names begins with TestDisk.
func TestNamesOfDiskTests(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !withDiskTag.Match(text) {
			return err
		}
		for _, name := range testFunc.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(name[1], "TestDisk") {
				t.Errorf("%s: make test-disk does not run %s; begin its name with TestDisk", path, name[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
