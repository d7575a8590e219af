//go:build disk

package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

func isSubvolume(t *testing.T, v volume.Volume) bool {
	t.Helper()
	info, err := os.Stat(v.Path)
	ok(t, err)
	return quota.IsSubvolume(info.Sys().(*syscall.Stat_t).Ino)
}

// On a btrfs without quotas, and of a class without one, each volume is a subvolume, too: its copy is a
// snapshot, so that one of many files may be in use. Both are removed in one step.
func TestDiskSubvolumesWithoutQuotas(t *testing.T) {
	for name, enable := range map[string]bool{"quotas are off": false, "quotas are on": true} {
		t.Run(name, func(t *testing.T) {
			root, whole := testdisk.Mount(t, "btrfs"), 0
			config := volume.Config{Path: root + "/pool", EnableBtrfsQuota: enable, Step: func(step string) {
				if step == "quota.remove" {
					whole++
				}
			}}
			p := opened(t, config)
			without := func(name string) volume.Spec {
				s := spec(name, 64*mib)
				s.Quota = record.QuotaNone
				return s
			}
			v, err := p.Create(without("v"))
			ok(t, err)
			data := random(t, v.Path+"/data", 4*mib)
			write(t, v.Path+"/more", "of v")
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			at := t.TempDir()
			testdisk.Run(t, "mount", "--bind", v.Path, at)
			s := cloneOf(p, without("c"))
			s.CopyBytes = false
			c, err := awaited(p, s)
			testdisk.Run(t, "umount", at)
			ok(t, err)
			_, err = p.Bind("c", binding("c"))
			ok(t, err)
			sameContent(t, c.Path+"/data", data)
			if !isSubvolume(t, v) || !isSubvolume(t, c) || c.QuotaEnforced || c.QuotaID != 0 {
				t.Errorf("%+v, %+v", v, c)
			}
			ok(t, p.Close())
			p = opened(t, config)
			consistent(t, p)
			for _, name := range []string{"v", "c"} {
				ok(t, p.Delete(name))
			}
			purge(t, p)
			if list := bash(t, root, "btrfs subvolume list ."); whole != 2 || strings.TrimSpace(list) != "" {
				t.Errorf("%d were removed in one step; subvolumes %q", whole, list)
			}
			if left := names(t, filepath.Join(root, "pool", trash)); len(left) > 0 {
				t.Errorf("the trash has %q", left)
			}
			consistent(t, p)
		})
	}
}
