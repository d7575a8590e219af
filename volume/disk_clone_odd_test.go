//go:build disk

package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// Quotas are turned off while a snapshot is made. A class that requires one gets no copy, and another one
// gets it without a quota.
func TestDiskCloneSnapshotWithoutQuotas(t *testing.T) {
	for _, policy := range []record.QuotaPolicy{record.QuotaRequired, record.QuotaBestEffort} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			root, off := "", sync.Once{}
			p, v := snapshotting(t, func(step string) {
				if step == "clone.snapshot" {
					off.Do(func() { testdisk.Run(t, "btrfs", "quota", "disable", root) })
				}
			})
			root = filepath.Dir(p.Path())
			write(t, v.Path+"/data", "of v")
			write(t, v.Path+"/more", "of v")
			s := snapshotOf(p)
			s.Quota = policy
			c, err := awaited(p, s)
			if policy == record.QuotaRequired {
				is(t, err, volume.ErrNoQuotas)
			} else if ok(t, err); c.QuotaEnforced || !there(c.Path+"/data") {
				t.Errorf("%+v", c)
			}
			if left := names(t, filepath.Join(p.Path(), staging)); len(left) > 0 {
				t.Errorf("staging has %q", left)
			}
			purge(t, p)
			consistent(t, p)
		})
	}
}

// A volume from before the quotas of btrfs is a plain directory. Its copy, made file by file, is a subvolume
// with a quota, of which the next copy is a snapshot.
func TestDiskCloneOfAVolumeFromBeforeQuotas(t *testing.T) {
	root := testdisk.Mount(t, "btrfs")
	p := opened(t, volume.Config{Path: root + "/pool"})
	v, err := p.Create(spec("v", 64*mib))
	ok(t, err)
	bash(t, root+"/pool", "rmdir v; mkdir v") // as an older agent made it
	data := random(t, v.Path+"/data", 4*mib)
	write(t, v.Path+"/more", "of v")
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: root + "/pool", EnableBtrfsQuota: true})
	c, err := awaited(p, snapshotOf(p))
	ok(t, err)
	_, err = p.Bind("c", binding("c"))
	ok(t, err)
	if inode := bash(t, c.Path, "stat -c %i ."); c.QuotaID == 0 || !c.QuotaEnforced || inode != "256\n" {
		t.Errorf("%+v, inode %s", c, inode)
	}
	sameContent(t, c.Path+"/data", data)
	used(t, c)
	s := cloneFrom(p, "c", limited("d", 64*mib))
	s.CopyBytes = false
	d, err := awaited(p, s) // of many files in use: only a snapshot may be that
	ok(t, err)
	sameContent(t, d.Path+"/data", data)
	purge(t, p)
	consistent(t, p)
}

// Flags of the source's own directory, which its owner may have set, keep no copy from its place.
func TestDiskCloneOfADirectoryThatIsLocked(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			p := opened(t, volume.Config{Path: testdisk.Mount(t, kind) + "/pool"})
			v, err := p.Create(spec("v", 64*mib))
			ok(t, err)
			write(t, v.Path+"/data", "of v")
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			bash(t, v.Path, "chattr +ia .")
			t.Cleanup(func() { testdisk.Run(t, "chattr", "-ia", v.Path) })
			c, err := cloned(p, spec("c", 64*mib))
			ok(t, err)
			want := []string{"its flag i", "its flag a"}
			if kind == "btrfs" {
				want = []string{"its flags i and a"} // a snapshot
			}
			for _, words := range want {
				if !strings.Contains(c.LeftOut, words) {
					t.Errorf("left out: %q", c.LeftOut)
				}
			}
			ok(t, os.WriteFile(c.Path+"/more", nil, 0o600))
			ok(t, p.RollBack("c"))
			purge(t, p)
			consistent(t, p)
		})
	}
}
