//go:build disk

package volume_test

import (
	"fmt"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// BenchmarkManyQuotas is BenchmarkManyVolumes on btrfs with a quota for each volume. Opening a pool sweeps: it removes the quotas
// whose directory is gone. docs/limits.md quotes it:
//
//	e2e/memory.sh go test -tags disk -run XXX -bench ManyQuotas -benchtime 1x ./volume
func BenchmarkManyQuotas(b *testing.B) {
	const n = 2000
	root := b.TempDir()
	device, _ := testdisk.Loop(b, 2<<30)
	testdisk.Run(b, "mkfs.btrfs", "-q", device)
	testdisk.Run(b, "mount", device, root)
	b.Cleanup(func() { testdisk.Detach(b, root) })
	config := volume.Config{Path: root + "/pool", EnableBtrfsQuota: true, Overcommit: 1e9}
	open := func() *volume.Pool {
		p, err := volume.New(config)
		ok(b, err)
		ok(b, p.Open())
		return p
	}
	p := open()
	for i := range n {
		_, err := p.Create(limited(fmt.Sprintf("pvc-%04d", i), 1<<20))
		ok(b, err)
	}
	ok(b, p.Close())
	b.Run(fmt.Sprintf("open and sweep/%d", n), func(b *testing.B) {
		for b.Loop() {
			ok(b, open().Close())
		}
	})
	b.Run(fmt.Sprintf("inspect/%d", n), func(b *testing.B) {
		for b.Loop() {
			r, err := inspect.Read(config.Path)
			ok(b, err)
			if len(r.Volumes) != n {
				b.Fatal(len(r.Volumes))
			}
		}
	})
	b.Run(fmt.Sprintf("purge/%d", n), func(b *testing.B) {
		p := open()
		all, err := p.List()
		ok(b, err)
		for _, v := range all {
			ok(b, p.Delete(v.Name))
		}
		for b.Loop() {
			_, err := p.Purge(b.Context())
			ok(b, err)
		}
		ok(b, p.Close())
	})
}
