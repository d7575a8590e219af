package capacity

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// gaugeOf returns a gauge of a pool that is not open yet. Its channel belongs
// to the bubble that it is made in.
func gaugeOf(t *testing.T) (*gauge, *volume.Pool) {
	t.Helper()
	pool, err := volume.New(volume.Config{Name: "legacy", Path: filepath.Join(t.TempDir(), "pool")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return newGauge(pool), pool
}

func TestGaugeOfAPoolThatOpensLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, pool := gaugeOf(t)
		go g.run(t.Context(), func() {})
		elapse(openWithin / 2)
		if l, known := g.sample(time.Now()); known {
			t.Errorf("before it was opened it is known to have %+v", l)
		}
		if err := pool.Open(); err != nil {
			t.Fatal(err)
		}
		elapse(time.Second)
		s, err := pool.Space()
		if err != nil {
			t.Fatal(err)
		}
		l, known := g.sample(time.Now())
		if !known || !l.ready || l.total != s.Total || l.bytes != roundDown(l.bytes) || l.bytes > s.Free+s.Total/100 || l.bytes == 0 {
			t.Errorf("after it was opened: %+v, %v; the pool has %+v", l, known, s)
		}
	})
}

func TestGaugeOfAPoolThatNeverOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gaugeOf(t)
		go g.run(t.Context(), func() {})
		elapse(openWithin + time.Second)
		if l, known := g.sample(time.Now()); !known || l != (sample{why: l.why}) || l.why == "" {
			t.Errorf("it has %+v, %v; want nothing, for sure", l, known)
		}
	})
}

// A change of a volume is seen after a call of changed, and otherwise when the pool
// is asked again.
func TestGaugeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, pool := gaugeOf(t)
		if err := pool.Open(); err != nil {
			t.Fatal(err)
		}
		var heard atomic.Int32
		go g.run(t.Context(), func() { heard.Add(1) })
		elapse(0)
		for name, row := range map[string]struct {
			tell  bool
			after time.Duration
		}{"told": {true, 0}, "not-told": {false, readEvery}} {
			before, _ := g.sample(time.Now())
			if _, err := pool.Create(volume.Spec{Name: name, Bytes: mib}); err != nil {
				t.Fatal(err)
			}
			heard.Store(0)
			if row.tell {
				g.changed()
				g.changed() // two calls before a read cause one
			}
			elapse(row.after)
			l, known := g.sample(time.Now())
			if !known || l.allocated != before.allocated+mib || heard.Load() == 0 || (l.changes != before.changes) != row.tell {
				t.Errorf("%s: %+v, %v, heard %d times; before it was %+v", name, l, known, heard.Load(), before)
			}
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
		g.changed()
		elapse(0)
		if l, known := g.sample(time.Now()); !known || l.ready || l.bytes != 0 {
			t.Errorf("of a pool that is not ready: %+v, %v", l, known)
		}
	})
}

func TestGaugeOfADiskThatHangs(t *testing.T) {
	g, _ := gaugeOf(t)
	if l, known := g.sample(time.Now()); known {
		t.Errorf("before it was asked it is known to have %+v", l)
	}
	g.set(sample{bytes: gib, ready: true, changes: 3})
	if l, known := g.sample(g.at.Add(respondWithin)); !known || l.bytes != gib {
		t.Errorf("a slow one: %+v, %v", l, known)
	}
	if l, known := g.sample(g.at.Add(respondWithin + 1)); !known || l != (sample{changes: 3, why: l.why}) || l.why == "" {
		t.Errorf("one that hangs: %+v, %v", l, known)
	}
}

// elapse lets time pass, and what happens meanwhile happen.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
