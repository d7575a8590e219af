package provision

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// full returns a controller whose pools are full but for half a MiB, and the pool legacy keeps a deleted
// volume of one MiB. free sets how many bytes are free.
func full(t *testing.T) (c *Controller, free *atomic.Int64) {
	t.Helper()
	free = &atomic.Int64{}
	free.Store(1 << 22)
	c = examinerOf(t, classtest.PoolsOf(t, func(c *volume.Config) {
		c.TrashRetention, c.TrashRetentionMax = time.Hour, time.Hour
		c.Figures = func(st *unix.Statfs_t) {
			st.Frsize, st.Blocks, st.Files, st.Ffree = 4096, 1<<10, 1<<20, 1<<20 // 4 MiB, of which a tenth stays free
			st.Bfree = uint64(free.Load() / 4096)
			st.Bavail = st.Bfree
		}
	}))
	c.RetentionMax = time.Hour
	pool := c.Pools.Named("legacy")
	owner := record.Owner{Namespace: "shop", Name: "data", UID: "old"}
	v, err := c.Pools.Create(pool, volume.Spec{Name: "pvc-old", Bytes: 1 << 20, PV: "pvc-old", Owner: owner})
	if err == nil {
		_, err = pool.Bind("pvc-old", volume.Binding{PV: "pvc-old", Owner: owner, UID: "pv", ReclaimPolicy: "Delete", Bound: true})
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(v.Path, "file"), []byte(strings.Repeat("data", 1<<18)), 0o600)
	}
	if err == nil {
		unix.Sync()
		err = pool.Delete("pvc-old")
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // the size of what is kept is measured
		if _, err := pool.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	free.Store(1 << 19)
	return c, free
}

// While kept volumes are removed for a claim, it stays at this node, with one event, and is served once
// a purge has made room. Space that only kept volumes take counts as obtainable before.
func TestRoomIsMade(t *testing.T) {
	for _, className := range []string{"wait", "csi"} {
		c, free := full(t)
		o := options(className, "1Mi")
		b := c.Backends.Named(o.StorageClass.Provisioner)
		pool := c.Pools.Named("legacy")
		space, err := pool.Space()
		if err != nil || space.Available >= 1<<20 || space.Obtainable() < 1<<20 {
			t.Fatalf("%+v, %v", space, err)
		}
		if className == "csi" && !c.Backends.Fit(o.StorageClass, 1<<20).Fits {
			t.Error("the node does not count as one where the claim fits")
		}
		if r := c.refusalOf(t.Context(), b, o.PVC, o.StorageClass); r != nil {
			t.Fatalf("%s: refused before the pool was asked: %+v", className, r)
		}
		_, state, err := c.Provision(t.Context(), o)
		if state != lib.ProvisioningFinished || !errors.As(err, new(*lib.IgnoredError)) || !strings.Contains(err.Error(), "makes room for this claim") {
			t.Errorf("%s: %s, %v", className, state, err)
		}
		if got := testutil.ToFloat64(c.refusals.WithLabelValues(refusedRoom)); got != 1 {
			t.Errorf("%s: %v refusals", className, got)
		}
		select {
		case <-pool.RoomWanted():
		default:
			t.Errorf("%s: no purge is wanted", className)
		}
		if _, err := pool.Purge(t.Context()); err != nil || len(pool.Kept()) != 0 {
			t.Errorf("%s: %v, kept %+v", className, err, pool.Kept())
		}
		free.Store(1 << 21)
		if pv, _, err := c.Provision(t.Context(), o); err != nil || pv == nil {
			t.Errorf("%s: %v after room was made", className, err)
		}
	}
}

// What even an empty trash does not make room for goes back to the scheduler, and nothing is removed.
func TestNoRoomIsMadeInVain(t *testing.T) {
	c, _ := full(t)
	o := options("csi", "2Mi")
	if r := c.refusalOf(t.Context(), c.Backends.Named(o.StorageClass.Provisioner), o.PVC, o.StorageClass); r == nil || r.reason != refusedSpace {
		t.Errorf("%+v", r)
	}
	_, state, err := c.Provision(t.Context(), o)
	if state != lib.ProvisioningReschedule || err == nil {
		t.Errorf("%s, %v", state, err)
	}
	pool := c.Pools.Named("legacy")
	if _, err := pool.Purge(t.Context()); err != nil || len(pool.Kept()) != 1 {
		t.Errorf("%v, kept %+v", err, pool.Kept())
	}
}

// A class may ask for less than --trash-retention-max, and its volumes have that in their records.
func TestRetentionOfClass(t *testing.T) {
	c, free := full(t)
	free.Store(1 << 22)
	for text, want := range map[string]struct {
		seconds int64
		refused bool
	}{"1h": {3600, false}, "30m": {1800, false}, "0": {-1, false}, "61m": {0, true}, "1h0m1s": {0, true}} {
		for _, className := range []string{"wait", "csi"} {
			o := options(className, "1Mi")
			sc := *o.StorageClass
			sc.Parameters = map[string]string{contract.RetentionParameter: text}
			o.StorageClass = &sc
			r := c.refusalOf(t.Context(), c.Backends.Named(sc.Provisioner), o.PVC, &sc)
			if (r != nil) != want.refused || r != nil && (r.reason != refusedUnsupported || !strings.Contains(r.message, "at most 1h0m0s (--trash-retention-max)")) {
				t.Errorf("%s, %s: %+v", className, text, r)
			}
			if want.refused {
				continue
			}
			if _, _, err := c.Provision(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			pool := c.Pools.Named("legacy")
			if v, err := pool.Get(o.PVName); err != nil || v.TrashRetention != want.seconds {
				t.Errorf("%s, %s: recorded %d, %v", className, text, v.TrashRetention, err)
			}
			if err := pool.RollBack(o.PVName); err != nil {
				t.Fatal(err)
			}
		}
	}
}
