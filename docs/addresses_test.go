package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Another project has the name of this one. No file sends its reader there: make release fills in the
// address of this repository, and the module's path is no address.
func TestNoAddressOfAnotherProject(t *testing.T) {
	other := regexp.MustCompile(`(github\.com/kubevirt|://kubevirt\.io)/` + `hostpath-provisioner`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "_artifacts" || d.Name() == "bin"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if found := other.Find(text); found != nil {
			t.Errorf("%s has the address %s of another project", path, found)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
