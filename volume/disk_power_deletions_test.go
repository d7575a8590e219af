//go:build disk

package volume_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// Volumes are deleted at once, the power goes when all callers were answered, and again
// right after the next start: no volume is back then, and none is after a purge. A directory
// that was restored between the two cuts stays.
//
// btrfs writes the two directories of a rename one after the other, so records are found in
// both.
func TestDiskPowerAfterDeletions(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		for _, quota := range []bool{false, true} {
			if kind != "btrfs" && !quota {
				continue // the pool there is the same
			}
			t.Run(fmt.Sprintf("%s, quota %v", kind, quota), func(t *testing.T) {
				image, dir := testdisk.Image(t, kind), t.TempDir()
				config := volume.Config{Path: filepath.Join(dir, "pool"), EnableBtrfsQuota: quota}
				after := cutAt(t, image, dir, config, deleteEight)
				after = cutAt(t, after, dir, config, func(t *testing.T, p *volume.Pool) {
					noneLive(t, p, "after the first start")
					write(t, filepath.Join(p.Path(), "v0", "data"), "restored")
					for _, name := range []string{"v0/data", "v0", "."} {
						flushed(t, filepath.Join(p.Path(), name))
					}
				})
				cutAt(t, after, dir, config, func(t *testing.T, p *volume.Pool) {
					noneLive(t, p, "after the second start")
					for _, r := range p.SetAside() { // an administrator decides
						ok(t, p.Delete(r.Name))
					}
					purge(t, p)
					p = reopened(t, p)
					noneLive(t, p, "after a purge and another start")
					if !there(filepath.Join(p.Path(), "v0", "data")) {
						t.Error("the restored directory is gone")
					}
					ok(t, p.Close())
				})
			})
		}
	}
}

// cutAt opens the pool of an image, calls do, and returns the disk of a power cut right
// after it.
func cutAt(t *testing.T, image, dir string, config volume.Config, do func(*testing.T, *volume.Pool)) (after string) {
	t.Helper()
	testdisk.Attach(t, image, dir)
	defer testdisk.Detach(t, dir)
	p := opened(t, config)
	do(t, p)
	after = cutOff(t, image)
	ok(t, p.Close())
	return after
}

// deleteEight makes eight volumes that are on the disk, and deletes them at once.
func deleteEight(t *testing.T, p *volume.Pool) {
	t.Helper()
	var volumes []string
	for i := range 8 {
		name := fmt.Sprint("v", i)
		volumes = append(volumes, name)
		_, err := p.Create(spec(name, mib))
		ok(t, err)
		_, err = p.Bind(name, binding(name))
		ok(t, err)
	}
	_, err := p.Purge(context.Background())
	ok(t, err)
	testdisk.Sync(t, p.Path())
	var wait sync.WaitGroup
	for _, name := range volumes {
		wait.Go(func() {
			if err := p.Delete(name); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

func noneLive(t *testing.T, p *volume.Pool, when string) {
	t.Helper()
	all, err := p.List()
	ok(t, err)
	for _, v := range all {
		t.Errorf("%s: volume %s is %s, its directory missing: %v", when, v.Name, v.State, v.Missing)
	}
}
