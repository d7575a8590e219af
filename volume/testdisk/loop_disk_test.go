//go:build disk

package testdisk

import (
	"os"
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

// A test detaches its device, and another one gets the number: the end of the first test leaves it alone.
func TestDiskLoopIsDetachedOnce(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.img")
	if err := os.WriteFile(other, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var device string
	t.Run("the first", func(t *testing.T) {
		for attempt := 0; ; attempt++ {
			device, _ = Loop(t, 8<<20)
			DetachLoop(t, device)
			if err := exec.Command("losetup", device, other).Run(); err == nil {
				return
			} else if attempt == 20 { // tests of other packages take numbers, too
				t.Fatal(err)
			}
		}
	})
	t.Cleanup(func() { Run(t, "losetup", "-d", device) })
	if got, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "size")); err != nil || string(got) != "2048\n" {
		t.Errorf("the other test's device has %q sectors, %v", got, err)
	}
}
