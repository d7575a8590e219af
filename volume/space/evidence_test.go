package space

import (
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// No more is allocated than is free, whatever is written, removed, moved, shared, created
// and deleted while volumes are measured.
func TestAllocationsHold(t *testing.T) {
	allocated := 0
	for seed := range uint64(400) {
		w := newWorld(t, seed)
		for range 60 {
			for range w.rand.IntN(6) {
				w.something()
			}
			p := w.pools[w.rand.IntN(len(w.pools))]
			if w.rand.IntN(2) == 0 {
				w.meter(p)
				continue
			}
			w.measure(p, func() {
				if all, _ := w.volumes(); len(all) > 0 {
					from, to := all[w.rand.IntN(len(all))], all[w.rand.IntN(len(all))]
					w.move(from.Name, to.Name, to.Bytes-w.size(to.Name))
				}
				for range w.rand.IntN(2) {
					w.something()
				}
			})
		}
		w.quiet()
		all, _ := w.volumes()
		allocated += len(all)
	}
	if allocated < 400 {
		t.Errorf("%d volumes in all: hardly anything was allocated", allocated)
	}
}

// two is a world with two volumes of 400, in which the first has 300.
func two(t *testing.T, pools ...int) *world {
	w := newWorld(t, 1)
	for i, name := range []string{"first", "second"} {
		w.pools[pools[i]].ledger.records.Set(record.Record{Name: name, State: record.Ready, Bytes: 400, Trash: name})
	}
	w.extents[1], w.files["first"] = 300, [][]int{{1}}
	w.next = 1
	return w
}

func (w *world) available(want int64, when string) {
	w.t.Helper()
	for _, p := range w.pools {
		if s := w.space(p); s.Available != want {
			w.t.Errorf("%s: pool %s: %+v, want %d", when, p.Name(), s, want)
		}
	}
}

// A walk is worth repeating once free space has risen by a good part of what it found.
func TestMeasureDue(t *testing.T) {
	w := two(t, 0, 0)
	p := w.pools[0]
	if w.f.MeasureDue(p.ledger) {
		t.Error("due before anything was read")
	}
	for _, c := range []struct {
		found, rose int64
		want        bool
	}{
		{0, doubtLeast, false}, {doubtLeast, doubtLeast - 1, false}, {doubtLeast, doubtLeast, true},
		{doubtShare * 10 * doubtLeast, 10*doubtLeast - 1, false}, {doubtShare * 10 * doubtLeast, 10 * doubtLeast, true},
	} {
		p.ledger.records.Set(record.Record{Name: "first", State: record.Ready, Bytes: c.found, Trash: "first"})
		w.f.rises[worldName] = &rise{sum: 5 + c.rose}
		p.ledger.sure.walked, p.ledger.sure.walkedAt = map[string]int64{"first": c.found}, 5
		if got := w.f.MeasureDue(p.ledger); got != c.want {
			t.Errorf("%+v: due %v", c, got)
		}
	}
}

// What volumes of another pool on the disk use is no external data.
func TestUseElsewhere(t *testing.T) {
	w := two(t, 0, 0)
	w.available(0, "not measured")
	w.measure(w.pools[0], func() {})
	w.available(1000-reserved-800, "measured")
}

// Data that goes from one volume to another while they are walked is found in both.
func TestMovedWhileWalked(t *testing.T) {
	for name, pools := range map[string][]int{"one pool": {0, 0}, "two pools": {0, 1}} {
		w := two(t, pools...)
		walk := func(meanwhile func()) {
			w.measure(w.pools[0], meanwhile)
			if pools[1] > 0 {
				w.measure(w.pools[1], func() {})
			}
		}
		walk(func() {})
		w.write(".outside", 100)
		steps := 0
		walk(func() {
			// Before the second volume of this walk, or after the pool's only one.
			if steps++; steps == 3-pools[1] {
				w.files["second"], w.files["first"] = w.files["first"], nil
			}
		})
		for range 3 {
			for _, p := range w.pools {
				if s := w.space(p); s.Available > max(0, w.free()-reserved-500) {
					t.Errorf("%s: %d are free, and %+v", name, w.free(), s)
				}
			}
			walk(func() {})
		}
		w.available(w.free()-reserved-500, name)
	}
}

// A volume that came after the one that was measured has nothing of it.
func TestLearnOfAnother(t *testing.T) {
	before := record.Record{Name: "first", State: record.Ready, Bytes: 400, Trash: "first"}
	s := survey{found: map[string]int64{"first": 300}, of: map[string]record.Record{"first": before}}
	for name, next := range map[string]record.Record{
		"another": {Name: "first", State: record.Ready, Bytes: 400, Trash: "another"},
		"later":   {Name: "first", State: record.Ready, Bytes: 400, Trash: "first", Created: time.Now().Add(1)},
		"going":   {Name: "first", State: record.Deleting, Bytes: 400, Trash: "first"},
	} {
		w := two(t, 0, 0)
		p := w.pools[0]
		p.ledger.records.Set(next)
		p.ledger.begun(s)
		p.ledger.noteUse(before, 300)
		w.space(p)
		w.f.learn(worldName, p.ledger, s)
		w.f.Read(worldName, []Reading{{p.ledger, s}})
		if len(p.ledger.sure.walked)+len(p.ledger.sure.last)+len(p.ledger.sure.written) > 0 || next.State == record.Ready && p.ledger.Usage(next).Known {
			t.Errorf("%s: %+v, %+v", name, p.ledger.sure, p.ledger.Usage(next))
		}
	}
}

// Whatever was found before counts less by as much as free space rose since, and no
// less than nothing.
func TestSurely(t *testing.T) {
	for _, c := range []struct {
		all         []finding
		risen, want int64
	}{
		{nil, 10, 0},
		{[]finding{{100, 0}}, 0, 100},
		{[]finding{{100, 0}}, 30, 70},
		{[]finding{{100, 0}}, 130, 0},
		{[]finding{{100, 10}, {50, 0}}, 30, 120},  // 50 lose 10, all lose 20
		{[]finding{{100, 80}, {50, 0}}, 90, 90},   // 50 are all lost before the other
		{[]finding{{100, 20}, {50, 20}}, 20, 150}, // nothing since
	} {
		if got := surely(c.all, c.risen); got != c.want {
			t.Errorf("%v, risen %d: %d, want %d", c.all, c.risen, got, c.want)
		}
	}
}
