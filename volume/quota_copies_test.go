//go:build disk || vm

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// A volume whose files take all of its inodes can be copied, also if they have several links.
func limitCopyLinks(t *testing.T, d quotaDisk) {
	if !d.inodes {
		return
	}
	p := d.pool(t)
	s := limited("v", 8*mib)
	s.Inodes = 12
	v, err := p.Create(s)
	ok(t, err)
	for i := range s.Inodes - 1 {
		path := filepath.Join(v.Path, fmt.Sprint("f", i))
		write(t, path, "x")
		ok(t, os.Link(path, path+"-again"))
	}
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	copied := limited("c", 8*mib)
	copied.Inodes = s.Inodes
	c, err := awaited(p, cloneOf(p, copied))
	ok(t, err)
	d.settle()
	if u, err := p.QuotaUsage("c"); err != nil || u.Inodes != s.Inodes || u.Limit.Inodes != s.Inodes {
		t.Errorf("%+v, %v", u, err)
	}
	if names := names(t, c.Path); len(names) != 2*int(s.Inodes-1) {
		t.Errorf("the copy has %q", names)
	}
}

// A volume that uses up its quota can be copied, and original and copy are overwritten as before.
func limitCopyFull(t *testing.T, d quotaDisk) {
	if d.method != quota.MethodXFS {
		return // see TestDiskCloneOfAFullSource; ext4 shares no blocks
	}
	const more = 4 * mib // see docs/on-disk-clones.md
	p := d.pool(t)
	v, err := p.Create(limited("v", 12*mib))
	ok(t, err)
	n, err := pour(t, v.Path+"/data", 64*mib)
	if !errors.Is(err, d.full) || n < 8*mib {
		t.Fatalf("the volume is not full: %d bytes, %v", n, err)
	}
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	c, err := awaited(p, cloneOf(p, limited("c", 12*mib)))
	ok(t, err)
	limit := func(when, name string, want int64) {
		t.Helper()
		u, err := p.QuotaUsage(name)
		if err != nil || u.Limit.Bytes != want && u.Limit.Bytes != max(want, u.Bytes) {
			t.Errorf("%s: volume %s: %+v, %v; want a quota of %d bytes, or what is in use", when, name, u, err, want)
		}
	}
	limit("copied", "v", 12*mib+more)
	limit("copied", "c", 12*mib+more)
	for _, path := range []string{v.Path, c.Path} {
		testdisk.Sync(t, d.root)
		if at, err := writeOver(t, path+"/data", n); err != nil {
			t.Errorf("overwrite %s at %d of %d: %v", filepath.Base(path), at, n, err)
		}
	}
	asRecorded(t, p)
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	limit("opened again", "v", 12*mib+more)
	limit("opened again", "c", 12*mib+more)
	ok(t, p.RollBack("c"))
	purge(t, p)
	limit("the copy is gone", "v", 12*mib)
	consistent(t, p)
}

// A source without a quota may have more than the size that it was asked for. A copy with a quota has not.
func limitCopyBeyond(t *testing.T, d quotaDisk) {
	if d.method == quota.MethodBtrfs {
		return // what is shared counts for no one
	}
	p := d.pool(t)
	s := spec("v", 2*mib)
	s.Quota = record.QuotaNone
	v, err := p.Create(s)
	ok(t, err)
	write(t, v.Path+"/data", strings.Repeat("x", 8*int(mib)))
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	_, err = awaited(p, cloneOf(p, limited("c", 2*mib)))
	if is(t, err, volume.ErrNoSpace); !strings.Contains(fmt.Sprint(err), "request more") {
		t.Errorf("%v does not say what to do", err)
	}
	if there(filepath.Join(p.Path(), "c")) || len(names(t, filepath.Join(p.Path(), staging))) > 0 {
		t.Error("a part of the copy is left")
	}
	purge(t, p)
	consistent(t, p)
}

// writeOver writes over the first bytes of a file, in pieces, as a process without privileges would.
func writeOver(t *testing.T, path string, size int64) (at int64, err error) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	ok(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 1000, 1000, 1000); errno != 0 {
			err = errno
			return
		}
		block := make([]byte, 64<<10)
		for ; at < size && err == nil; at += int64(len(block)) {
			if _, err = f.WriteAt(block[:min(int64(len(block)), size-at)], at); err == nil && at%(4<<20) == 0 {
				err = f.Sync()
			}
		}
	}()
	<-done
	return at, errors.Join(err, f.Close())
}
