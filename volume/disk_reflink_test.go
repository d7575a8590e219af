//go:build disk

package volume_test

import (
	"crypto/rand"
	"os"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// again unmounts and mounts the disk of a pool, as a restart of the machine does, and opens the pool.
func again(t *testing.T, p *volume.Pool, image, root string) *volume.Pool {
	t.Helper()
	ok(t, p.Close())
	testdisk.Detach(t, root)
	testdisk.Attach(t, image, root, "commit=1")
	return opened(t, volume.Config{Path: p.Path(), EnableBtrfsQuota: true})
}

// A tenant has data of a deleted volume by reflink. After a restart the kernel gives the ID of that
// volume's subvolume again, and counts the data for the ID: no new volume begins with it.
func TestDiskIDThatStillCounts(t *testing.T) {
	root, image := t.TempDir(), testdisk.Image(t, "btrfs")
	testdisk.Attach(t, image, root, "commit=1")
	p := opened(t, volume.Config{Path: root + "/pool", EnableBtrfsQuota: true})
	small, err := p.Create(limited("small", 8*mib))
	ok(t, err)
	data := make([]byte, 10*mib)
	rand.Read(data)
	gone := map[uint64]bool{}
	for _, name := range []string{"a", "b", "c"} {
		v, err := p.Create(limited(name, 40*mib))
		ok(t, err)
		gone[v.QuotaID] = true
		ok(t, os.WriteFile(v.Path+"/f", data, 0o644))
		testdisk.Run(t, "sync", "-f", root)
		testdisk.Run(t, "cp", "--reflink=always", v.Path+"/f", small.Path+"/"+name)
		ok(t, p.Delete(name))
	}
	purge(t, p)
	testdisk.Run(t, "btrfs", "subvolume", "sync", root)
	purge(t, p)
	p = again(t, p, image, root)
	other, err := p.Create(limited("other", 12*mib))
	ok(t, err)
	if u, err := p.QuotaUsage("other"); err != nil || u.Bytes > 64<<10 || gone[other.QuotaID] {
		t.Errorf("the new volume, which is empty, uses %d KiB, %v; its ID counts for a deleted one: %v", u.Bytes>>10, err, gone[other.QuotaID])
	}
	ok(t, os.WriteFile(other.Path+"/f", data, 0o644))
	if names := names(t, p.Path()+"/.hostpath-provisioner/staging"); len(names) > 0 {
		t.Errorf("staging has %q", names)
	}
}

// The directory of a volume was removed by hand, and the kernel gave its ID to a new volume: the
// record of the missing one does not keep the new one from its quota.
func TestDiskIDOfAMissingVolume(t *testing.T) {
	root, image := t.TempDir(), testdisk.Image(t, "btrfs")
	testdisk.Attach(t, image, root, "commit=1")
	p := opened(t, volume.Config{Path: root + "/pool", EnableBtrfsQuota: true})
	v, err := p.Create(limited("v", 8*mib))
	ok(t, err)
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	testdisk.Run(t, "btrfs", "subvolume", "delete", v.Path)
	testdisk.Run(t, "btrfs", "subvolume", "sync", root)
	p = again(t, p, image, root)
	w, err := p.Create(limited("w", 8*mib))
	if err != nil || w.QuotaID != v.QuotaID {
		t.Fatalf("%+v, %v; the test proves nothing unless it has the ID %d", w, err, v.QuotaID)
	}
	if w, err = p.Expand("w", 16*mib); err != nil || !w.QuotaEnforced {
		t.Errorf("the new volume: %v, %s", err, w.NotEnforced)
	}
	if u, err := p.QuotaUsage("w"); err != nil || u.Limit.Bytes != 16*mib {
		t.Errorf("%+v, %v", u, err)
	}
}
