//go:build disk

package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/internal/testdisk"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Who was told of a volume finds it, although the start cannot write that it is ready.
func TestDiskFullAtTheStart(t *testing.T) {
	path := smallDisk(t)
	p := opened(t, volume.Config{Path: path})
	create(t, p, "v")
	ok(t, p.Close())
	fillUp(t, path)
	p = opened(t, volume.Config{Path: path})
	if v, err := p.Get("v"); err != nil || v.State != record.Ready || onDisk(t, p, "v").State != record.Creating {
		t.Errorf("%+v, %v; on disk %+v", v, err, onDisk(t, p, "v"))
	}
	_, err := p.Purge(t.Context())
	if is(t, err, unix.ENOSPC); len(p.Warnings()) > 0 {
		t.Errorf("warnings %q", p.Warnings())
	}
	testdisk.Run(t, "sh", "-c", "rm "+filepath.Join(path, private, "full*"))
	purge(t, p)
	if r := onDisk(t, p, "v"); r.State != record.Ready {
		t.Errorf("on disk %+v", r)
	}
	consistent(t, p)
}

// Who has no space left deletes something: that needs none.
func TestDiskFullDelete(t *testing.T) {
	path := smallDisk(t)
	p := opened(t, volume.Config{Path: path})
	create(t, p, "v")
	fillUp(t, path)
	_, err := p.Create(spec("w", gib))
	is(t, err, unix.ENOSPC)
	ok(t, p.Delete("v"))
	purge(t, p)
	create(t, p, "w")
	consistent(t, p)
}

// smallDisk returns a disk of a hundred inodes.
func smallDisk(t *testing.T) string {
	t.Helper()
	testdisk.Root(t)
	path := t.TempDir()
	ok(t, unix.Mount("none", path, "tmpfs", 0, "nr_inodes=100,mode=700"))
	t.Cleanup(func() { testdisk.Detach(t, path) })
	return path
}

// fillUp takes every inode that the pool's disk has left.
func fillUp(t *testing.T, path string) {
	t.Helper()
	var err error
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(path, private, "full"+strconv.Itoa(i)), nil, 0o600)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}
