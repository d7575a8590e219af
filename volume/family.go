package volume

import (
	"sync"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// pool is a pool of the family.
type pool interface {
	Ledger() *ledger
	// Read adds a reading of the pool's counters to those that were begun before. It
	// must not wait for other calls: two pools that wait for each other here, and a
	// third call that waits to reopen one of them, would wait for ever. The reading
	// before will do.
	Read(c *bounded.Call, before []reading) []reading
}

// family is the pools of one process. Those on one filesystem share its space:
// what one promises no other may promise again.
type family struct {
	pools []pool

	// mu makes looking and promising one step for all pools. It is held for
	// sums over memory only, never while a disk is asked. Who holds it may take
	// the mu of one ledger after the other.
	mu    sync.Mutex
	rises map[string]*rise // by filesystem; guarded by mu
}

func newFamily(pools ...pool) *family { return &family{pools: pools, rises: map[string]*rise{}} }

// others returns the other pools on the filesystem of l.
func (f *family) others(l *ledger) (all []pool) {
	at := l.where()
	for _, p := range f.pools {
		if other := p.Ledger(); other != l && at != "" && other.where() == at {
			all = append(all, p)
		}
	}
	return all
}

// elsewhere sums what the other pools on the filesystem of l promised, and what
// their volumes were found to use. The caller holds mu.
func (f *family) elsewhere(l *ledger) (all others) {
	for _, p := range f.others(l) {
		promised, found := p.Ledger().sums()
		all.promised, all.found = add(all.promised, promised), append(all.found, found...)
	}
	return all
}

// recorded returns how many volumes on the filesystem of l are recorded with the limit
// ID, in its own pool and in the other pools of the process.
func (f *family) recorded(l *ledger, at string, id uint64) int {
	n := l.records.WithLimitID(id)
	for _, p := range f.pools {
		if other := p.Ledger(); other != l && at != "" && other.where() == at {
			n += other.records.WithLimitID(id)
		}
	}
	return n
}

// space is the one answer to how much there is and can still be promised.
func (f *family) space(filesystem string, l *ledger, st *unix.Statfs_t) Space {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spaceLocked(filesystem, l, st)
}

// spaceLocked is space for a caller that holds mu.
func (f *family) spaceLocked(filesystem string, l *ledger, st *unix.Statfs_t) Space {
	risen, elsewhere := f.saw(filesystem, st), f.elsewhere(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(st, elsewhere, risen)
}

// reserve promises bytes to a volume whose record does not have them yet, wanted
// of them more than it has, or refuses with a SpaceError. Looking and promising are one step for all pools of the process,
// so two calls cannot both get the last bytes. release gives up a promise that
// no record took over.
func (f *family) reserve(filesystem string, l *ledger, st *unix.Statfs_t, name string, bytes, wanted int64) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.spaceLocked(filesystem, l, st)
	if wanted > s.Promisable {
		return nil, &fault.SpaceError{Wanted: wanted, Promisable: s.Promisable, Total: s.Total, Estimate: s.Estimate}
	}
	return l.hold(name, bytes), nil
}
