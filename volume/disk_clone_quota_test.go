//go:build disk

package volume_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// btrfs counts a block for the volume that wrote it, for as long as any file has it. The source of a
// clone can be full, be overwritten, and outlive the clone, and none of it costs the tenant his size.
func TestDiskCloneOfAFullSource(t *testing.T) {
	root, image := t.TempDir(), testdisk.Image(t, "btrfs")
	testdisk.Attach(t, image, root, "commit=1")
	p := opened(t, volume.Config{Path: root + "/pool", EnableBtrfsQuota: true})
	v, err := p.Create(limited("v", 32*mib))
	ok(t, err)
	n, err := pour(t, v.Path+"/data", 40*mib)
	if !errors.Is(err, unix.EDQUOT) || n < 24*mib {
		t.Fatalf("the source is not full: %d bytes, %v", n, err)
	}
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	s := cloneOf(p, limited("c", 48*mib))
	s.CopyBytes = false
	c, err := awaited(p, s)
	ok(t, err)
	limit := func(name string, want int64) {
		t.Helper()
		if u, err := p.QuotaUsage(name); err != nil || u.Limit.Bytes != want {
			t.Errorf("volume %s: %+v, %v; want a quota of %d MiB", name, u, err, want/mib)
		}
	}
	limit("v", 64*mib) // the clone has no more of the source than the source had
	limit("c", 48*mib)
	overwrite := func() {
		t.Helper()
		data := make([]byte, mib)
		f, err := os.OpenFile(v.Path+"/data", os.O_WRONLY, 0)
		ok(t, err)
		defer f.Close()
		for at := int64(0); at < n; at += mib { // all of it: btrfs frees whole extents
			if _, err := f.WriteAt(data[:min(mib, n-at)], at); err != nil {
				t.Fatalf("overwrite the source at %d MiB: %v", at/mib, err)
			}
			testdisk.Sync(t, root) // with it btrfs frees what was overwritten
		}
	}
	overwrite()
	p = again(t, p, image, root)
	limit("v", 64*mib)
	n -= 4 * mib // no full volume of btrfs can be overwritten, with or without clones
	ok(t, os.Truncate(v.Path+"/data", n))
	testdisk.Sync(t, root)
	overwrite()
	ok(t, p.RollBack("c"))
	purge(t, p)
	testdisk.Run(t, "btrfs", "subvolume", "sync", root)
	testdisk.Sync(t, root)
	purge(t, p)
	limit("v", 32*mib)
	if there(c.Path) {
		t.Error("the clone is there")
	}
	consistent(t, p)
}

// A copy of a copy, and a copy that was deleted and is kept, still have blocks of the first original.
func TestDiskCloneOfAClone(t *testing.T) {
	root, image := t.TempDir(), testdisk.Image(t, "btrfs")
	testdisk.Attach(t, image, root, "commit=1")
	config := volume.Config{Path: root + "/pool", EnableBtrfsQuota: true, TrashRetention: time.Hour}
	p := opened(t, config)
	restart := func() {
		t.Helper()
		ok(t, p.Close())
		testdisk.Detach(t, root)
		testdisk.Attach(t, image, root, "commit=1")
		p = opened(t, config)
	}
	v, err := p.Create(limited("v", 32*mib))
	ok(t, err)
	n, err := pour(t, v.Path+"/data", 40*mib)
	if !errors.Is(err, unix.EDQUOT) || n < 24*mib {
		t.Fatalf("the source is not full: %d bytes, %v", n, err)
	}
	for _, row := range []struct {
		of, name string
		bytes    int64
	}{{"v", "c1", 32 * mib}, {"c1", "c2", 48 * mib}} {
		_, err = p.Bind(row.of, binding(row.of))
		ok(t, err)
		s := cloneFrom(p, row.of, limited(row.name, row.bytes))
		s.CopyBytes = false
		_, err = awaited(p, s)
		ok(t, err)
	}
	limit := func(when string, want int64) {
		t.Helper()
		purge(t, p)
		if u, err := p.QuotaUsage("v"); err != nil || u.Limit.Bytes != want {
			t.Errorf("%s: %+v, %v; want a quota of %d MiB", when, u, err, want/mib)
		}
	}
	limit("both copies are there", 64*mib)
	ok(t, p.Delete("c1"))
	if len(p.Kept()) != 1 {
		t.Fatalf("kept: %+v", p.Kept())
	}
	restart()
	limit("one is kept", 64*mib)
	for _, k := range p.Kept() {
		ok(t, p.DropKept(k.ID))
	}
	limit("one is gone", 64*mib)
	testdisk.Run(t, "btrfs", "subvolume", "sync", root)
	restart()
	limit("one is gone, after a start", 64*mib)
	data := make([]byte, mib)
	f, err := os.OpenFile(v.Path+"/data", os.O_WRONLY, 0)
	ok(t, err)
	for at := int64(0); at < n; at += mib {
		if _, err := f.WriteAt(data[:min(mib, n-at)], at); err != nil {
			t.Fatalf("overwrite the first original at %d MiB: %v", at/mib, err)
		}
		testdisk.Sync(t, root)
	}
	ok(t, f.Close())
	ok(t, p.RollBack("c2"))
	purge(t, p)
	testdisk.Run(t, "btrfs", "subvolume", "sync", root)
	testdisk.Sync(t, root)
	limit("all are gone", 32*mib)
	consistent(t, p)
}

// A clone gets no more than its size, also of data that is written to it.
func TestDiskCloneHasAQuota(t *testing.T) {
	p := opened(t, volume.Config{Path: testdisk.Mount(t, "btrfs") + "/pool", EnableBtrfsQuota: true})
	v, err := p.Create(limited("v", 16*mib))
	ok(t, err)
	data := random(t, v.Path+"/data", 8*mib)
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	c, err := awaited(p, cloneOf(p, limited("c", 16*mib)))
	ok(t, err)
	sameContent(t, c.Path+"/data", data)
	if n, err := pour(t, c.Path+"/more", 64*mib); !errors.Is(err, unix.EDQUOT) || n > 16*mib {
		t.Errorf("%d bytes went into the clone, %v", n, err)
	}
	if c.QuotaID == 0 || c.QuotaID == v.QuotaID || !c.QuotaEnforced {
		t.Errorf("%+v, source %d", c, v.QuotaID)
	}
}

// A start lowers no quota before it knows all copies: another pool of the filesystem may have some, and
// is opened later. Copies on another filesystem have no blocks of the source.
func TestDiskCloneQuotaOfPoolsThatAreOpenedLater(t *testing.T) {
	root, image, other := t.TempDir(), testdisk.Image(t, "btrfs"), testdisk.Mount(t, "btrfs")
	testdisk.Attach(t, image, root, "commit=1")
	var from, to, apart *volume.Pool
	start := func() {
		t.Helper()
		from = configured(t, volume.Config{Name: "from", Path: root + "/from", EnableBtrfsQuota: true})
		to = configured(t, volume.Config{Name: "to", Path: root + "/to"})
		apart = configured(t, volume.Config{Name: "apart", Path: other + "/apart", EnableBtrfsQuota: true})
		_, err := volume.NewPools(from, to, apart)
		ok(t, err)
		ok(t, from.Open())
	}
	limit := func(when string, want int64) {
		t.Helper()
		if u, err := from.QuotaUsage("v"); err != nil || u.Limit.Bytes != want {
			t.Errorf("%s: %+v, %v; want a quota of %d MiB", when, u, err, want/mib)
		}
	}
	start()
	ok(t, to.Open())
	ok(t, apart.Open())
	_, err := from.Create(limited("v", 32*mib))
	ok(t, err)
	random(t, from.Path()+"/v/data", 8*mib)
	_, err = from.Bind("v", binding("v"))
	ok(t, err)
	for _, in := range []*volume.Pool{apart, to} {
		s := cloneFrom(from, "v", limited("c-"+in.Name(), 32*mib))
		s.From = from
		_, err = awaited(in, s)
		ok(t, err)
		limit("a copy in pool "+in.Name(), map[string]int64{"to": 64 * mib, "apart": 32 * mib}[in.Name()])
		purge(t, in)
	}
	purge(t, from)
	limit("both copies are there", 64*mib)
	for _, p := range []*volume.Pool{from, to, apart} {
		ok(t, p.Close())
	}
	start()
	limit("the pool of the copy is not open yet", 64*mib)
	purge(t, from)
	limit("purged before that", 64*mib)
	ok(t, to.Open())
	ok(t, apart.Open())
	purge(t, from)
	limit("all are open", 64*mib)
	ok(t, to.RollBack("c-to"))
	purge(t, to)
	testdisk.Run(t, "btrfs", "subvolume", "sync", root)
	testdisk.Sync(t, root)
	purge(t, from)
	limit("the copy is gone", 32*mib)
}
