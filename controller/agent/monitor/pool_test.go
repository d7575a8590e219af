package monitor

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	clientrecord "k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/volume"
)

// The trash is purged soon after a call of Purge, and once more
// when the filesystem is done with it; otherwise every minute.
func TestPoolMonitorPurges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	synctest.Test(t, func(t *testing.T) {
		pool, err := volume.New(volume.Config{Path: path})
		if err == nil {
			err = pool.Open()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		passes := make(chan struct{}, 100)
		k := NewPoolMonitor(pool, clientrecord.NewFakeRecorder(1), &corev1.ObjectReference{}, NewProbes(), func() { passes <- struct{}{} })
		go k.purge(t.Context())
		begin := time.Now()
		for _, want := range []time.Duration{0, time.Second, 11 * time.Second, 71 * time.Second, 131 * time.Second} {
			if <-passes; time.Since(begin) != want {
				t.Errorf("a pass after %v, want one after %v", time.Since(begin), want)
			}
			if want == 0 {
				for range 3 { // requested during the delay
					k.Purge()
				}
			}
		}
	})
}

// A change of identity is recorded once.
func TestPoolMonitorSaysThatThePoolMoved(t *testing.T) {
	pool, err := volume.New(volume.Config{Name: "local", Path: filepath.Join(t.TempDir(), "pool")})
	if err == nil {
		err = pool.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	events, changes := clientrecord.NewFakeRecorder(3), 0
	k := NewPoolMonitor(pool, events, &corev1.ObjectReference{}, NewProbes(), func() { changes++ })
	id := k.moved(klog.Background(), "")
	for _, was := range []string{id, "before", id} {
		if got := k.moved(klog.Background(), was); got != pool.ID() {
			t.Errorf("identity %s, want %s", got, pool.ID())
		}
	}
	if len(events.Events) != 1 || changes != 1 {
		t.Fatalf("%d events and %d changes, want one of each", len(events.Events), changes)
	}
	if e := <-events.Events; !strings.Contains(e, "Normal PoolMoved pool local") || !strings.Contains(e, "was before") {
		t.Error(e)
	}
}

// Only a probe that finds the pool ready is timed.
func TestProbeIsTimed(t *testing.T) {
	pool, err := volume.New(volume.Config{Name: "local", Path: filepath.Join(t.TempDir(), "pool")})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	probes := NewProbes()
	m := NewPoolMonitor(pool, clientrecord.NewFakeRecorder(3), &corev1.ObjectReference{}, probes, func() {})
	once, cancel := context.WithCancel(t.Context())
	cancel()
	last := func() float64 {
		m.probe(once)
		return testutil.ToFloat64(probes.WithLabelValues("local"))
	}
	if got := last(); got != 0 {
		t.Errorf("a pool that is not open was probed at %v", got)
	}
	begin := float64(time.Now().Unix())
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	if got := last(); got < begin {
		t.Errorf("last probe at %v, want %v or later", got, begin)
	}
}
