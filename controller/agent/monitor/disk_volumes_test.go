//go:build disk

package monitor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	clientrecord "k8s.io/client-go/tools/record"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// From the removal of a directory to an event and back, with real
// mounts and the real pauses.
func TestDiskPublishedVolumeIsLookedAt(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	pool, err := volume.New(volume.Config{Name: "local", Path: filepath.Join(t.TempDir(), "pool")})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	v, err := pool.Create(volume.Spec{Name: "pvc-1", Bytes: 1, Owner: record.Owner{Namespace: "ns", Name: "data", UID: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	target := t.TempDir()
	if err := unix.Mount(v.Path, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(target, unix.MNT_DETACH)
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		events := clientrecord.NewFakeRecorder(10)
		volumes := NewVolumeMonitor(pools, events, "node-01")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { volumes.Run(ctx); close(done) }()

		want := func(after time.Duration, what ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			got := heard(events)
			if len(got) != len(what) || len(got) == 1 && !strings.HasPrefix(got[0], what[0]) {
				t.Errorf("%q, want %q", got, what)
			}
			metrics := make(chan prometheus.Metric, 10)
			if volumes.Collect(metrics); len(metrics) == 0 {
				t.Error("metrics before the first check")
			}
		}
		want(firstCheck + time.Second)
		if err := os.Remove(v.Path); err != nil {
			t.Fatal(err)
		}
		want(volumesEvery, "Warning VolumeConditionAbnormal volume pvc-1 on node node-01: its directory "+v.Path+" is not there")
		want(10 * volumesEvery)
		// Its owner brings it back, and the kubelet mounts it again.
		if err := errors.Join(unix.Unmount(target, unix.MNT_DETACH), os.Mkdir(v.Path, 0o700),
			unix.Mount(v.Path, target, "", unix.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
		want((normalAfter-1)*volumesEvery - time.Second)
		want(2*volumesEvery, "Normal VolumeConditionNormal volume pvc-1 on node node-01: the problem is gone")
		cancel()
		<-done
	})
}
