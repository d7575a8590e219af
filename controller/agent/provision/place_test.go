package provision

import (
	"fmt"
	"path/filepath"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// twoDisks returns the backend of the dialect local-path with two pools.
func twoDisks(t *testing.T, c *Controller) *backends.Backend {
	t.Helper()
	dialects, err := contract.ParseCompat("local-path")
	if err != nil {
		t.Fatal(err)
	}
	return backends.HostPath(c.Info, backends.Served{Dialect: dialects[0], Pools: c.Pools.All()})
}

// allocate creates a volume of half of what is available in a pool.
func allocate(t *testing.T, pool *volume.Pool) {
	t.Helper()
	space, err := pool.Space()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Create(volume.Spec{Name: "big", Bytes: space.Available / 2}); err != nil {
		t.Fatal(err)
	}
}

// A dialect with several pools uses the one with the most available space, and stays with the pool
// that has the volume.
func TestPlaceOf(t *testing.T) {
	c := examiner(t)
	b := twoDisks(t, c)
	legacy, fast := c.Pools.Named("legacy"), c.Pools.Named("fast")
	claim, sc := classtest.Claim(testUID, "wait", ""), classtest.Class("wait")
	want := func(what string, sc *storagev1.StorageClass, pool *volume.Pool, made bool) {
		t.Helper()
		got, r := c.placeOf(b, claim, sc)
		// Pools of one disk are measured one after the other, and another program may free space in
		// between.
		for tries := 0; got.pool != pool && tries < 20; tries++ {
			got, r = c.placeOf(b, claim, sc)
		}
		if got.pool != pool || got.made != made || (r == nil) != (pool != nil) || pool != nil && got.spec.Name != "pvc-"+testUID+"_default_"+claim.Name {
			t.Errorf("%s: %+v, %+v", what, got, r)
		}
	}
	want("equal pools", sc, legacy, false)
	allocate(t, legacy)
	// Both are on one filesystem, whose free space they share, so the other has no more available.
	want("one filesystem", sc, legacy, false)
	if err := legacy.Close(); err != nil {
		t.Fatal(err)
	}
	want("a pool that is not ready", sc, fast, false)

	named := sc.DeepCopy()
	named.Parameters = map[string]string{"nodePath": legacy.Path()}
	want("a path in the class", named, legacy, false)
	named.Parameters["nodePath"] = "/elsewhere"
	want("another path in the class", named, nil, false)
	if r := c.refusalOf(t.Context(), b, claim, named); r == nil || r.reason != refusedNoPool {
		t.Errorf("another path in the class: %+v", r)
	}

	name := b.Directory(claim, &storagev1.StorageClass{})
	if _, err := c.Pools.Create(fast, volume.Spec{Name: name, Bytes: 1, PV: contract.PVName(claim), Owner: record.Owner{UID: testUID}}); err != nil {
		t.Fatal(err)
	}
	want("the volume exists", sc, fast, true)
}

// Each pool has its own reserve, so that their available spaces differ.
func TestMostAvailable(t *testing.T) {
	var pools []*volume.Pool
	for _, reserve := range []int64{1 << 60, 1 << 20, 0} {
		pool, err := volume.New(volume.Config{Name: fmt.Sprint(reserve), Path: filepath.Join(t.TempDir(), "pool"), Reserve: reserve})
		if err == nil {
			err = pool.Open()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		pools = append(pools, pool)
	}
	if got := mostAvailable(pools, volume.Spec{}); got != pools[2] {
		t.Errorf("pool %s, want the one without a reserve", got.Name())
	}
	if got := mostAvailable(pools[:2], volume.Spec{}); got != pools[1] {
		t.Errorf("pool %s, want the one with the smaller reserve", got.Name())
	}
	if got := mostAvailable(nil, volume.Spec{}); got != nil {
		t.Errorf("no pools: %v", got)
	}
	if got := mostAvailable(pools, volume.Spec{Quota: record.QuotaRequired}); got != pools[0] {
		t.Errorf("neither has quotas: %v", got.Name())
	}
}
