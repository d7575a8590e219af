package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The number of a loop device that is detached is the next one's, also in another package's tests,
// which run at the same time: what detaches knows which device it attached, and does so once.
func TestLoopDevicesAreDetachedInOnePlace(t *testing.T) {
	detaches := regexp.MustCompile(`"losetup", "(--detach|-d)`)
	may := []string{"volume/testdisk/loop.go", "volume/testdisk/loop_disk_test.go", "e2e/suite/harness/loop.go", "e2e/suite/harness/disk.go"}
	found := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !detaches.Match(text) {
			return err
		}
		found++
		if !slices.Contains(may, path) {
			t.Errorf("%s detaches a loop device: use LoopOn and DetachLoop of volume/testdisk, in e2e those of the harness", path)
		}
		return nil
	})
	if err != nil || found != len(may) {
		t.Errorf("%d files detach loop devices, want %d: %v", found, len(may), err)
	}
}
