//go:build disk

package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
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

// A disk that is full to the last block: the pool can be opened, a volume that would be kept can be
// deleted, and a purge gives its space back, whether it was kept or went to the trash for want of space.
func TestDiskFullOfKept(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		for _, before := range []bool{false, true} { // the pool kept a volume before
			t.Run(fmt.Sprintf("%s, kept before: %v", kind, before), func(t *testing.T) {
				path := filepath.Join(testdisk.Mount(t, kind), "pool")
				p := opened(t, volume.Config{Path: path, TrashRetention: time.Hour})
				for _, name := range []string{"v", "w"} {
					v, err := p.Create(spec(name, mib))
					ok(t, err)
					_, err = p.Bind(name, binding(name))
					ok(t, err)
					write(t, filepath.Join(v.Path, "data"), name)
				}
				purge(t, p)
				if before {
					ok(t, p.Delete("v"))
					purge(t, p)
				}
				f, err := os.Create(filepath.Join(path, "w", "fill"))
				ok(t, err)
				for err == nil {
					_, err = f.Write(make([]byte, 64<<10))
				}
				ok(t, f.Close())
				testdisk.Sync(t, path)
				ok(t, p.Close())
				p = opened(t, volume.Config{Path: path, TrashRetention: time.Hour})
				ok(t, p.Delete("w"))
				for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
					_, err = p.Purge(t.Context())
					testdisk.Sync(t, path) // btrfs frees with its next commit
					s, unread := p.Space()
					if err == nil && unread == nil && s.Free > 100*mib {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("%d MiB are free, %v, %v; kept %+v", s.Free/mib, err, unread, p.Kept())
					}
				}
				consistent(t, p)
			})
		}
	}
}
