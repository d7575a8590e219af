//go:build disk

package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// A caller that got a volume finds it, although the start cannot write that it is ready.
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

// A deletion needs no free space.
func TestDiskFullDelete(t *testing.T) {
	path := smallDisk(t)
	p := opened(t, volume.Config{Path: path})
	create(t, p, "v")
	fillUp(t, path)
	_, err := p.Create(spec("w", gib))
	is(t, err, volume.ErrNoSpace)
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

// A filesystem without free inodes has nothing available, however many bytes it has, so the node is
// not chosen for a claim that it would only refuse. Deletion frees what it needs.
func TestDiskWithoutInodesOffersNothing(t *testing.T) {
	path := filepath.Join(smallDisk(t), "pool")
	p := opened(t, volume.Config{Path: path})
	create(t, p, "v")
	available := func() int64 {
		t.Helper()
		s, err := p.Space()
		ok(t, err)
		return s.Available
	}
	if available() == 0 {
		t.Fatal("nothing is available while inodes are")
	}
	fillUp(t, path)
	_, err := p.Create(spec("w", 1))
	var space *fault.SpaceError
	if !errors.As(err, &space) || !space.NoInodes || !strings.Contains(err.Error(), "inodes") {
		t.Errorf("created without inodes: %v", err)
	}
	if _, err := p.Expand("v", 2*gib); !errors.As(err, &space) {
		t.Errorf("grown without inodes: %v", err)
	}
	if n := available(); n != 0 {
		t.Errorf("%d bytes are available", n)
	}
	ok(t, p.Delete("v"))
	for i := range 30 {
		ok(t, os.Remove(filepath.Join(path, private, "full"+strconv.Itoa(i))))
	}
	if available() == 0 {
		t.Error("nothing is available once files were removed")
	}
	create(t, p, "w")
}
