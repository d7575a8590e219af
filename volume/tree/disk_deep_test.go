//go:build disk

package tree_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// Many nested directories, with the descriptors that a container usually has.
// With HPP_LONG=1 a hundred thousand, and on every disk.
func TestDiskDeep(t *testing.T) {
	depth := 20000
	if os.Getenv("HPP_LONG") != "" {
		depth = 100000
	}
	deep := func(t *testing.T, dir string) {
		os.Mkdir(filepath.Join(dir, "entry"), 0o755)
		chain(t, filepath.Join(dir, "entry"), depth)
		fewFiles(t)
		all := works(t, dir)
		for _, name := range []string{"measure", "copy", "remove"} {
			n, most, base := 0, 0, openFiles(t)
			err := all[name](func(context.Context) error {
				if n++; n%10000 == 0 {
					most = max(most, openFiles(t)-base)
				}
				return nil
			})
			if err != nil || n < 2*depth || most > 40 {
				t.Errorf("%s: %d steps, %d files open, %v", name, n, most, err)
			}
		}
		if there(filepath.Join(dir, "entry")) {
			t.Error("it is still there")
		}
	}
	t.Run("tmpfs", func(t *testing.T) {
		memory := t.TempDir()
		testdisk.Root(t)
		if err := unix.Mount("none", memory, "tmpfs", 0, "nr_inodes=0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { testdisk.Detach(t, memory) })
		deep(t, memory)
	})
	if os.Getenv("HPP_LONG") != "" {
		onEveryDisk(t, deep)
	}
}
