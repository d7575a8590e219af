//go:build disk

package testdisk

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A loop device has nothing of the test that had its number before and was killed.
func TestDiskLoopIsNew(t *testing.T) {
	device, image := Loop(t, 8<<20)
	Run(t, "addpart", device, "1", "2048", "2048")
	Run(t, "blockdev", "--setro", device)
	renew(t, device)
	if got, err := exec.Command("blockdev", "--getro", device).Output(); err != nil || strings.TrimSpace(string(got)) != "0" {
		t.Errorf("read-only %q, %v", got, err)
	}
	name := filepath.Base(device)
	if left, err := filepath.Glob(filepath.Join("/sys/block", name, name+"p*")); err != nil || len(left) > 0 {
		t.Errorf("partitions %q, %v", left, err)
	}
	asked := LoopOn(t, image, "--read-only")
	if got, err := exec.Command("blockdev", "--getro", asked).Output(); err != nil || strings.TrimSpace(string(got)) != "1" {
		t.Errorf("a device that was attached with --read-only: read-only %q, %v", got, err)
	}
}
