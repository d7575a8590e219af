package space

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A world is a filesystem in memory, with two pools on it and data outside.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	f       *Filesystems
	pools   []*worldPool
	disk    int64
	extents map[int]int64      // sizes of what is on the disk
	files   map[string][][]int // of a volume, of the trash (.trash) and outside (.outside): files of extents
	counted map[string]bool    // volumes whose use the kernel counts
	walks   int                // begun so far
	grew    map[string]int     // how many had begun when a volume grew last, or shrank
	shrank  map[string]int
	next    int
	log     []string
	xfs     bool // counters count what files share for each of them
}

// A worldPool is a pool without a directory: its ledger.
type worldPool struct {
	ledger *Ledger
	name   string
}

func (p *worldPool) Name() string                                     { return p.name }
func (p *worldPool) Ledger() *Ledger                                  { return p.ledger }
func (p *worldPool) Read(_ *bounded.Call, before []Reading) []Reading { return before }

const worldDisk, reserved, worldName = 1000, 50, "fs"

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), disk: worldDisk, extents: map[int]int64{}, files: map[string][][]int{},
		counted: map[string]bool{}, grew: map[string]int{}, shrank: map[string]int{}, walks: 10, xfs: seed%2 == 1}
	for _, name := range []string{"a", "b"} {
		p := &worldPool{name: name}
		p.ledger = NewLedger(record.NewStore(func(name string) { p.ledger.Forget(name) }), reserved, 1)
		p.ledger.SetFilesystem(worldName)
		w.pools = append(w.pools, p)
	}
	w.f = NewFilesystems(w.pools[0], w.pools[1])
	return w
}

func (w *world) free() int64 {
	free := w.disk
	for _, bytes := range w.extents {
		free -= bytes
	}
	return free
}

func (w *world) statfs() *unix.Statfs_t {
	return &unix.Statfs_t{Blocks: uint64(w.disk), Bfree: uint64(w.free()), Bavail: uint64(w.free()), Frsize: 1}
}

// held returns how many of the files for which keep returns true have each extent.
func (w *world) held(keep func(owner string) bool) map[int]int {
	held := map[int]int{}
	for owner, files := range w.files {
		for _, file := range files {
			for _, e := range file {
				if keep(owner) {
					held[e]++
				}
			}
		}
	}
	return held
}

// drop frees what nothing holds any more.
func (w *world) drop() {
	held := w.held(func(string) bool { return true })
	for e := range w.extents {
		if held[e] == 0 {
			delete(w.extents, e)
		}
	}
}

// size is the sum of a volume's files, shared or not.
func (w *world) size(owner string) (sum int64) {
	for _, file := range w.files[owner] {
		for _, e := range file {
			sum += w.extents[e]
		}
	}
	return sum
}

// walked is what a walk finds in a volume: extents that only one file has.
func (w *world) walked(owner string) (sum int64) {
	held := w.held(func(string) bool { return true })
	for _, file := range w.files[owner] {
		for _, e := range file {
			if held[e] == 1 {
				sum += w.extents[e]
			}
		}
	}
	return sum
}

// counter is what the kernel counts for a volume.
func (w *world) counter(owner string) int64 {
	if w.xfs {
		return w.size(owner)
	}
	return w.walked(owner)
}

// walkShared has what the volumes share known, as it is after a walk.
func (w *world) walkShared() {
	for _, p := range w.pools {
		if err := p.ledger.walkShared(w.t.Context(), func(_ context.Context, name string) (int64, error) {
			return w.counter(name) - w.walked(name), nil
		}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) outside(owner string) bool { return owner[0] == '.' }

// used is what volumes really use.
func (w *world) used() (sum int64) {
	for e := range w.held(func(owner string) bool { return !w.outside(owner) }) {
		sum += w.extents[e]
	}
	return sum
}

func (w *world) space(p *worldPool) Space {
	return w.f.Space(worldName, p.ledger, w.statfs())
}

// lately reports whether a volume did something since the walk before the last, of its
// pool, began.
func (w *world) lately(did map[string]int, owner string) bool { return did[owner] >= w.walks-4 }

// change lets a volume grow or shrink. Where it turns round, and for what is outside,
// free space is read before and after: what hides behind another's change goes one way.
func (w *world) change(owner string, grows bool, do func()) {
	mine, other := w.grew, w.shrank
	if !grows {
		mine, other = other, mine
	}
	turned := w.lately(other, owner) || w.outside(owner)
	if turned {
		w.space(w.pools[0])
	}
	do()
	if turned {
		w.space(w.pools[0])
	}
	mine[owner] = w.walks
}

func (w *world) write(owner string, most int64) {
	bytes := min(1+w.rand.Int64N(60), w.free(), most)
	if bytes <= 0 {
		return
	}
	w.change(owner, true, func() {
		w.next++
		w.extents[w.next] = bytes
		w.files[owner] = append(w.files[owner], []int{w.next})
	})
	w.say("%s writes %d", owner, bytes)
}

func (w *world) remove(owner string) {
	files := w.files[owner]
	if len(files) == 0 {
		return
	}
	i := w.rand.IntN(len(files))
	w.change(owner, false, func() {
		w.files[owner] = append(append([][]int{}, files[:i]...), files[i+1:]...)
		w.drop()
	})
	w.say("%s removes a file", owner)
}

// reflink copies a file into the same or another volume.
func (w *world) reflink(from, to string, most int64) {
	files := w.files[from]
	if len(files) == 0 {
		return
	}
	file := files[w.rand.IntN(len(files))]
	var bytes int64
	for _, e := range file {
		bytes += w.extents[e]
	}
	if bytes > most {
		return
	}
	w.change(to, true, func() { w.files[to] = append(w.files[to], file) })
	w.say("%s gets %d of %s", to, bytes, from)
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) volumes() (all []record.Record, of map[string]*worldPool) {
	of = map[string]*worldPool{}
	for _, p := range w.pools {
		for _, r := range p.ledger.records.Sorted(func(record.Record) bool { return true }) {
			all, of[r.Name] = append(all, r), p
		}
	}
	return all, of
}

// move takes a file from one volume to another, so that free space does not change.
func (w *world) move(from, to string, most int64) {
	files := w.files[from]
	if len(files) == 0 || w.lately(w.grew, from) || w.lately(w.shrank, to) || from == to {
		return
	}
	var bytes int64
	for _, e := range files[0] {
		bytes += w.extents[e]
	}
	if bytes > most {
		return
	}
	w.files[from], w.files[to] = files[1:], append(w.files[to], files[0])
	w.shrank[from], w.grew[to] = w.walks, w.walks
	w.say("%s moves %d to %s", from, bytes, to)
}
