//go:build disk

package volume_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/internal/testdisk"
)

// Who was told of a volume finds it, although the start cannot write that it is ready.
func TestDiskFullAtTheStart(t *testing.T) {
	testdisk.Root(t)
	path := t.TempDir()
	ok(t, unix.Mount("none", path, "tmpfs", 0, "nr_inodes=100,mode=700"))
	defer testdisk.Detach(t, path)
	p := opened(t, volume.Config{Path: path})
	create(t, p, "v")
	ok(t, p.Close())
	for i, err := 0, error(nil); err == nil; i++ {
		err = os.WriteFile(filepath.Join(path, private, "full"+strconv.Itoa(i)), nil, 0o600)
	}
	p = opened(t, volume.Config{Path: path})
	if v, err := p.Get("v"); err != nil || v.State != volume.Ready || onDisk(t, p, "v").State != volume.Creating {
		t.Errorf("%+v, %v; on disk %+v", v, err, onDisk(t, p, "v"))
	}
	_, err := p.Purge(t.Context())
	if is(t, err, unix.ENOSPC); len(p.Warnings()) > 0 {
		t.Errorf("warnings %q", p.Warnings())
	}
	testdisk.Run(t, "sh", "-c", "rm "+filepath.Join(path, private, "full*"))
	purge(t, p)
	if r := onDisk(t, p, "v"); r.State != volume.Ready {
		t.Errorf("on disk %+v", r)
	}
	consistent(t, p)
}

// Somebody puts a directory back after its volume was deleted, and the power goes
// before anything else is flushed: it is not taken for the volume.
func TestDiskPutBackAfterDelete(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			image, dir := testdisk.Image(t, kind), t.TempDir()
			testdisk.Attach(t, image, dir)
			path := filepath.Join(dir, "pool")
			p := opened(t, volume.Config{Path: path, Step: func(step string) {
				if step == "delete.move" {
					unix.Sync() // as others may; what comes after is not on its way with what came before
				}
			}})
			_, err := p.Create(spec("v", mib))
			ok(t, err)
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			ok(t, os.Remove(filepath.Join(path, "v")))
			ok(t, p.Delete("v"))
			write(t, filepath.Join(path, "v", "data"), "x")
			for _, name := range []string{"v/data", "v", "."} {
				f, err := os.Open(filepath.Join(path, name))
				ok(t, err)
				ok(t, f.Sync())
				ok(t, f.Close())
			}
			after := filepath.Join(t.TempDir(), "after.img")
			testdisk.Run(t, "cp", "--sparse=always", image, after)
			ok(t, p.Close())
			testdisk.Detach(t, dir)

			testdisk.Attach(t, after, dir)
			p = opened(t, volume.Config{Path: path})
			purge(t, p)
			if !there(filepath.Join(path, "v", "data")) {
				t.Errorf("it is gone; records %v", names(t, filepath.Join(path, records)))
			}
		})
	}
}
