package volume_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// BenchmarkManyVolumes has the seconds that calls on a pool of 1,000, 5,000 and 10,000 volumes take, and the memory that a
// volume's record takes. docs/limits.md quotes them:
//
//	e2e/memory.sh go test -run XXX -bench ManyVolumes -benchtime 1x ./volume
func BenchmarkManyVolumes(b *testing.B) {
	for _, n := range []int{1000, 5000, 10_000} {
		base := filepath.Join(b.TempDir(), "pool")
		config := volume.Config{Path: base, Holder: "the benchmark", Overcommit: 1e9}
		pool, err := volume.New(config)
		ok(b, err)
		ok(b, pool.Open())
		for i := range n {
			name := fmt.Sprintf("pvc-%08d-0000-4000-8000-000000000000", i)
			s := volume.Spec{Name: name, Bytes: 1 << 20, PV: name, Owner: record.Owner{Namespace: "shop", Name: fmt.Sprint("data-", i),
				UID: name[4:]}, Quota: record.QuotaNone}
			_, err := pool.Create(s)
			ok(b, err)
		}
		ok(b, pool.Close())
		b.Run(fmt.Sprintf("open/%d", n), func(b *testing.B) {
			for b.Loop() {
				before := heapBytes()
				p, err := volume.New(config)
				ok(b, err)
				ok(b, p.Open())
				b.ReportMetric(float64(heapBytes()-before)/float64(n), "B/volume")
				ok(b, p.Close())
				runtime.KeepAlive(p)
			}
		})
		b.Run(fmt.Sprintf("inspect/%d", n), func(b *testing.B) {
			for b.Loop() {
				r, err := inspect.Read(base)
				ok(b, err)
				if len(r.Volumes) != n {
					b.Fatal(len(r.Volumes))
				}
			}
		})
		b.Run(fmt.Sprintf("purge/%d", n), func(b *testing.B) {
			p, err := volume.New(config)
			ok(b, err)
			ok(b, p.Open())
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
}

// BenchmarkManyPools has the seconds in which as many pools of one node are opened as the operator allows, with ten
// volumes each, and the memory and goroutines of each. docs/limits.md quotes it.
func BenchmarkManyPools(b *testing.B) {
	const n, volumes = 32, 10
	configs := make([]volume.Config, n)
	for i := range configs {
		configs[i] = volume.Config{Path: filepath.Join(b.TempDir(), "pool"), Holder: "the benchmark", Overcommit: 1e9}
		p, err := volume.New(configs[i])
		ok(b, err)
		ok(b, p.Open())
		for j := range volumes {
			_, err := p.Create(volume.Spec{Name: fmt.Sprintf("pvc-%d", j), Bytes: 1 << 20, Quota: record.QuotaNone})
			ok(b, err)
		}
		ok(b, p.Close())
	}
	for b.Loop() {
		before, goroutines := heapBytes(), runtime.NumGoroutine()
		pools := make([]*volume.Pool, n)
		for i, config := range configs {
			var err error
			pools[i], err = volume.New(config)
			ok(b, err)
			ok(b, pools[i].Open())
		}
		b.ReportMetric(float64(heapBytes()-before)/n, "B/pool")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/pool")
		for _, p := range pools {
			ok(b, p.Close())
		}
	}
}

// heapBytes returns the live heap.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
