package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A namespace that was made again has its old name and maybe another tenant. So a package that prints or
// writes a claim for a volume that is there asks whose the namespace is.
func TestClaimsAreMadeForTheTenantWhoHadTheVolume(t *testing.T) {
	makes := regexp.MustCompile(`contract\.Restore\(|PersistentVolumeClaims\(.*\)\.Create\(`)
	asks := regexp.MustCompile(`recovery\.(OtherTenant|Decide)\(`)
	made, asked := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("controller", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "simulation" { // its users make claims
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir := filepath.Dir(path)
		made[dir] = made[dir] || makes.Match(text)
		asked[dir] = asked[dir] || asks.Match(text)
		return err
	})
	found := 0
	for dir, makes := range made {
		if !makes {
			continue
		}
		found++
		if !asked[dir] {
			t.Errorf("%s makes claims of volumes, and does not ask recovery.OtherTenant or recovery.Decide whose their namespace is", dir)
		}
	}
	if err != nil || found != 3 {
		t.Errorf("%d packages make claims, want 3: %v", found, err)
	}
}
