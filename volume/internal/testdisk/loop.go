package testdisk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Loop attaches a sparse file of that size as a block device until the test ends, and returns the
// device and the file.
func Loop(t testing.TB, bytes int64) (device, image string) {
	t.Helper()
	Root(t)
	image = filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, bytes); err != nil {
		t.Fatal(err)
	}
	return LoopOn(t, image), image
}

// LoopOn attaches a file or a block device as a block device until the test ends.
func LoopOn(t testing.TB, backing string, options ...string) (device string) {
	t.Helper()
	out, err := exec.Command("losetup", append(options, "--find", "--show", backing)...).CombinedOutput()
	device = strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(device, "/dev/loop") {
		t.Fatalf("losetup %s: %v\n%s", backing, err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Logf("losetup --detach %s: %v: %s", device, err, out)
		}
	})
	return device
}
