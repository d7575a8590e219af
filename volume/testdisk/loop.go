package testdisk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// attached are the loop devices of LoopOn that are not detached yet.
var attached sync.Map

// LoopOn attaches a file or a block device as a block device until the test ends, or until DetachLoop.
// The device has nothing of an earlier owner of its number.
func LoopOn(t testing.TB, backing string, options ...string) (device string) {
	t.Helper()
	out, err := exec.Command("losetup", append(options, "--find", "--show", backing)...).CombinedOutput()
	device = strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(device, "/dev/loop") {
		t.Fatalf("losetup %s: %v\n%s", backing, err, out)
	}
	attached.Store(device, nil)
	t.Cleanup(func() { DetachLoop(t, device) })
	renew(t, device)
	return device
}

// DetachLoop detaches a device of LoopOn. It does nothing the second time: another test, of this
// process or of another, may have the number by then.
func DetachLoop(t testing.TB, device string) {
	t.Helper()
	if _, ours := attached.LoadAndDelete(device); ours {
		Run(t, "losetup", "--detach", device)
	}
}

// renew takes away what outlives the detachment of a loop device, for example of a test that was
// killed: the flag of blockdev --setro, and partitions that no partition table has. A device that is
// attached with --read-only stays read-only.
func renew(t testing.TB, device string) {
	t.Helper()
	Run(t, "blockdev", "--setrw", device)
	name := filepath.Base(device)
	left, err := filepath.Glob(filepath.Join("/sys/block", name, name+"p*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		Run(t, "partx", "--delete", device)
	}
}
