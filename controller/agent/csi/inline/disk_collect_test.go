//go:build disk

package inline

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A volume that is mounted somewhere stays until it is not, wherever its pod is.
func TestDiskCollectInUse(t *testing.T) {
	c, _ := collected(t)
	at := t.TempDir()
	if err := unix.Mount(filepath.Join(c.pool.Path(), "csi-gone"), at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(at, "file"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if note, there, err := c.checks(t); note == "" || !there || err != nil {
			t.Errorf("in use: %q, there %v, %v", note, there, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(at, "file")); string(data) != "kept" {
		t.Errorf("%q, %v", data, err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if _, there, err := c.checks(t); there || err != nil {
		t.Errorf("unmounted: there %v, %v", there, err)
	}
}
