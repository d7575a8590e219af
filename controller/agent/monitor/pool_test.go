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
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
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

// A pool of other nodes is no event, and one that is here all the same is told once.
func TestMonitorOfPoolsOfOtherNodes(t *testing.T) {
	is := pooldir.NotSelected
	pool, err := volume.New(volume.Config{Name: "local", Path: filepath.Join(t.TempDir(), "pool"),
		Selected: func() (pooldir.Selection, string) { return is, "the labels do not match" }})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	_ = pool.Open() // it is not here
	events, changes := clientrecord.NewFakeRecorder(10), 0
	k := NewPoolMonitor(pool, events, &corev1.ObjectReference{}, NewProbes(), func() { changes++ })
	k.Every = time.Millisecond
	probes := func() {
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		k.probe(ctx)
	}
	if probes(); len(events.Events) != 0 || changes != 1 {
		t.Errorf("%d events, %d changes of a pool that is not here", len(events.Events), changes)
	}
	if got := testutil.CollectAndCount(NewCollector([]*volume.Pool{pool}, func(string) (bool, error) { return false, nil })); got != 0 {
		t.Errorf("%d metrics of it", got)
	}
	is = pooldir.Selected
	if probes(); len(events.Events) != 0 || pool.Ready() != nil {
		t.Errorf("%d events, %v after the node got the label", len(events.Events), pool.Ready())
	}
	is = pooldir.NotSelected
	if probes(); len(events.Events) != 1 {
		t.Fatalf("%d events after the node lost it", len(events.Events))
	}
	if e := <-events.Events; !strings.Contains(e, "Warning PoolNotSelected pool local") {
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
