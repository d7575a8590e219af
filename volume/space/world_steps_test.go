package space

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// create asks for some space, and checks that what it is given is there.
func (w *world) create() {
	p := w.pools[w.rand.IntN(len(w.pools))]
	w.walkShared()
	s := w.space(p)
	// Whatever is available can be allocated: the volumes lack no more than is free.
	all, _ := w.volumes()
	lacking := -w.used()
	for _, r := range all {
		lacking += r.Bytes
	}
	if s.Available > 0 && lacking+s.Available > w.free()-reserved {
		from := max(0, len(w.log)-40)
		w.t.Fatalf("%d is available, %d are free, %d of these reserved and %d allocated: %+v\n%q",
			s.Available, w.free(), reserved, lacking, s, w.log[from:])
	}
	bytes := min(s.Available, 20+w.rand.Int64N(200))
	if bytes <= 0 {
		return
	}
	w.next++
	r := record.Record{Name: fmt.Sprint("v", w.next), State: record.Ready, Bytes: bytes, Trash: fmt.Sprint(w.next)}
	p.ledger.records.Set(r)
	if w.counted[r.Name] = w.rand.IntN(3) == 0; w.counted[r.Name] {
		p.ledger.Begin(r.Name)
	}
	w.say("%s created with %d, counted %v", r.Name, bytes, w.counted[r.Name])
}

// meter reads the counters of a pool's volumes.
func (w *world) meter(p *worldPool) {
	w.space(p)
	s := survey{risen: w.f.rises[worldName].sum, found: map[string]int64{}, of: map[string]record.Record{}}
	for _, r := range p.ledger.records.InPlace() {
		if w.counted[r.Name] {
			s.found[r.Name], s.of[r.Name] = w.counter(r.Name), r
		}
	}
	w.f.Read(worldName, []Reading{{p.ledger, s}})
	w.say("counters of %s", p.Name())
}

// measure walks a pool, and lets anything happen meanwhile.
func (w *world) measure(p *worldPool, meanwhile func()) {
	walk := func(volumes []record.Record) survey {
		s := survey{found: map[string]int64{}, of: map[string]record.Record{}}
		for _, r := range volumes {
			meanwhile()
			s.found[r.Name], s.of[r.Name] = w.walked(r.Name), r
			w.say("%s is walked: %d", r.Name, s.found[r.Name])
		}
		return s
	}
	w.walks++
	p.ledger.begun(walk(p.ledger.unknown()))
	meanwhile()
	w.space(p)
	risen := w.f.rises[worldName].sum
	s := walk(p.ledger.uncounted())
	s.risen = risen
	meanwhile()
	w.f.learn(worldName, p.ledger, s)
	w.say("%s was walked", p.Name())
}

// something happens.
func (w *world) something() {
	all, of := w.volumes()
	if len(all) == 0 {
		w.create()
		return
	}
	r, other := all[w.rand.IntN(len(all))], all[w.rand.IntN(len(all))]
	room := func(r record.Record) int64 { return r.Bytes - w.size(r.Name) }
	switch w.rand.IntN(16) {
	case 0, 1, 2, 3:
		w.write(r.Name, room(r))
	case 4, 5, 6:
		w.remove(r.Name)
	case 7, 8: // moved, so that free space does not change
		w.move(r.Name, other.Name, room(other))
	case 9:
		if w.xfs || !w.counted[r.Name] && !w.counted[other.Name] {
			w.reflink(r.Name, other.Name, room(other))
		}
	case 10:
		w.write(".outside", 30)
	case 11:
		w.remove(".outside")
	case 12:
		w.remove(".trash")
	case 13:
		// What it may have of another's since then is in the trash, and soon free.
		if w.rand.IntN(2) == 0 && !w.lately(w.grew, r.Name) {
			w.files[".trash"] = append(w.files[".trash"], w.files[r.Name]...)
			delete(w.files, r.Name)
			of[r.Name].ledger.records.Forget(r.Name)
			w.say("%s is deleted", r.Name)
		}
	default:
		w.create()
	}
}

// quiet measures everything while nothing happens: then the answer is exact, but for
// what files share.
func (w *world) quiet() {
	for range 3 { // what is new in one pool counts as a rise for the others once more
		for _, p := range w.pools {
			w.measure(p, func() {})
			w.meter(p)
		}
		w.walkShared()
	}
	lacking := int64(0)
	all, _ := w.volumes()
	for _, r := range all {
		lacking += r.Bytes - w.walked(r.Name)
	}
	for _, p := range w.pools {
		if s := w.space(p); s.Available != max(0, w.free()-reserved-lacking) {
			w.t.Errorf("%d are free, %d of these reserved and %d allocated: %+v", w.free(), reserved, lacking, s)
		}
	}
}
