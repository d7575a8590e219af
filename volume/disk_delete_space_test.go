//go:build disk

package volume_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/internal/testdisk"
)

// A deletion cannot rename the directory, because something was mounted on it meanwhile: its
// space was not given to another volume, and is its own.
func TestDiskDeletionFailsBesideACreate(t *testing.T) {
	path := filepath.Join(testdisk.Mount(t, "ext4"), "pool")
	var p *volume.Pool
	p = opened(t, volume.Config{Path: path, Step: func(step string) {
		if step != "delete.rename" {
			return
		}
		_, err := p.Create(spec("b", 200*mib))
		is(t, err, volume.ErrNoSpace)
		ok(t, unix.Mount("tmpfs", filepath.Join(path, "a"), "tmpfs", 0, ""))
	}})
	_, err := p.Create(spec("a", 200*mib))
	ok(t, err)
	is(t, p.Delete("a"), volume.ErrInUse)
	ok(t, unix.Unmount(filepath.Join(path, "a"), 0))

	s, err := p.Space()
	ok(t, err)
	if s.Allocated != 200*mib {
		t.Errorf("%d MiB are allocated, want 200", s.Allocated/mib)
	}
	consistent(t, p)
}
