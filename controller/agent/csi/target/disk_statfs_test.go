//go:build disk

package target

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// While statistics of a volume wait for its disk, other calls have the target.
func TestDiskStatfsHoldsNoTarget(t *testing.T) {
	kubelet, volume := t.TempDir(), filepath.Join(t.TempDir(), "pvc-v")
	path := filepath.Join(kubelet, "mount")
	for _, dir := range []string{volume, path} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(volume, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	all := New(kubelet)
	if st, err := all.Statfs("pvc-v", path); err != nil || st.Blocks == 0 {
		t.Errorf("statistics: %d blocks, %v", st.Blocks, err)
	}
	if _, err := all.Statfs("pvc-w", path); err != unix.ENOENT {
		t.Errorf("of another volume: %v", err)
	}
	f, err := all.mounted("pvc-v", path) // where Statfs waits
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begin := time.Now()
	opened, err := all.Open(path)
	if err != nil || time.Since(begin) > lockTimeout/2 {
		t.Fatalf("another call: %v after %s", err, time.Since(begin))
	}
	opened.Close()
}
