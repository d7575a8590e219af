//go:build disk || vm

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// limitReflinks has a volume whose files share their blocks. XFS counts these for each file. What is
// available to others does not grow by it after a walk, nor when the pool is opened again.
func limitReflinks(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	v, err := p.Create(limited("v", 64*mib))
	ok(t, err)
	testdisk.Sync(t, d.root)
	before, err := p.Space()
	ok(t, err)
	_, err = pour(t, v.Path+"/f", 8*mib)
	ok(t, err)
	testdisk.Sync(t, d.root)
	from, err := os.Open(v.Path + "/f")
	ok(t, err)
	defer from.Close()
	for i := range 6 {
		to, err := os.Create(fmt.Sprint(v.Path, "/copy", i))
		ok(t, err)
		err = unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
		to.Close()
		if errors.Is(err, unix.EOPNOTSUPP) {
			return // ext4
		}
		ok(t, err)
	}
	testdisk.Sync(t, d.root)
	hold := func(when string) {
		t.Helper()
		time.Sleep(1100 * time.Millisecond) // longer than a reading is current
		s, err := p.Space()
		// btrfs frees what the rows before this one deleted whenever it likes.
		freed := max(0, s.Free+8*mib-before.Free)
		if err != nil || s.Used > 9*mib || s.Available > before.Available+freed+slack {
			t.Errorf("%s: space %+v, %v, before %+v", when, s, err, before)
		}
	}
	u, err := p.QuotaUsage("v")
	ok(t, err)
	t.Logf("the kernel counts %d MiB", u.Bytes/mib)
	ok(t, p.Measure(t.Context()))
	hold("walked")
	moved := p.Path() + "-moved"
	ok(t, os.Rename(p.Path(), moved))
	is(t, p.Ready(), volume.ErrNotReady)
	ok(t, os.Rename(moved, p.Path()))
	hold("opened again")
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path(), EnableBtrfsQuota: true})
	hold("another process")
	ok(t, p.Delete("v"))
	purge(t, p)
}
