package volume

import (
	"maps"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// ledger accounts for the space of a pool: what its volumes use, as far as that is
// known, and what is allocated to volumes whose record does not have it yet. It may
// ask the records while it holds mu; they never call it while they hold their lock.
type ledger struct {
	records  *record.Store
	mu       sync.Mutex
	reserved map[string]int64 // bytes of volumes whose record does not have them yet
	used     map[string]int64 // bytes as last measured, of volumes that have a record
	metered  map[string]int64 // bytes as the kernel counts them, of volumes with a limit
	sure     evidence         // what volumes use at least
	// filesystem is where the pool was when it was last open; "" is not known.
	filesystem string
}

// newLedger returns the ledger of a pool with these records.
func newLedger(records *record.Store) *ledger {
	l := &ledger{records: records, reserved: map[string]int64{}}
	l.reset()
	return l
}

// reset forgets everything but reservations. The records were read from the disk.
func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used, l.metered = map[string]int64{}, map[string]int64{}
	l.sure = newEvidence()
}

// left forgets the use of a volume that went, or is being deleted: a volume whose
// deletion is rolled back was not measured meanwhile.
func (l *ledger) left(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetUse(name)
}

// promised counts every volume that is not being deleted, and those about to
// be made. The caller holds mu.
func (l *ledger) promised() int64 {
	var sum int64
	waiting := maps.Clone(l.reserved)
	l.records.Each(func(r Record) {
		if r.State != Deleting {
			sum = add(sum, r.Bytes)
		}
		if bytes, ok := waiting[r.Name]; ok {
			waiting[r.Name] = max(0, bytes-r.Bytes)
		}
	})
	for _, bytes := range waiting {
		sum = add(sum, bytes)
	}
	return sum
}

// others is what the other pools on the filesystem of one promised, and were found
// to use.
type others struct {
	promised int64
	found    []finding
}

// account works out how much there is and can still be promised. risen is how far
// free space has risen so far; see rise. The caller holds mu.
func (l *ledger) account(st *unix.Statfs_t, reserve int64, ratio float64, elsewhere others, risen int64) Space {
	s := Space{
		Total:     blocks(st.Blocks, st.Frsize),
		Free:      blocks(st.Bavail, st.Frsize),
		Promised:  l.promised(),
		Elsewhere: elsewhere.promised,
	}
	found, estimate := l.using()
	all := append(found, elsewhere.found...)
	// All pools share the filesystem: what is in doubt is in doubt for this one first.
	sure := surely(all, risen)
	s.Used, s.Estimate = max(0, total(found)-(total(all)-sure)), estimate
	s.External = max(0, s.Total-s.Free-sure)
	// What is free bounds every answer, so the reserve is kept out of that, too: a
	// ratio above 1 must not hand it out.
	reserve = min(reserve, s.Total)
	s.Promisable = min(max(0, s.Free-reserve), max(0, scale(s.Total-s.External-reserve, ratio)-add(s.Promised, s.Elsewhere)))
	return s
}

// blocks returns n blocks in bytes, at most what an int64 holds.
func blocks(n uint64, size int64) int64 {
	if size <= 0 {
		return 0
	}
	if n > uint64(math.MaxInt64/size) {
		return math.MaxInt64
	}
	return int64(n) * size
}

// add adds what is not negative, at most up to what an int64 holds.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// scale multiplies what is promisable once by the overcommit ratio. A ratio
// of 1 stays exact.
func scale(bytes int64, ratio float64) int64 {
	if ratio == 1 || bytes <= 0 {
		return max(0, bytes)
	}
	// From here on a float64 rounds up to 2^63, which no int64 holds.
	scaled := float64(bytes) * ratio
	if scaled >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(scaled)
}

// isEmpty reports whether nothing is allocated: no record is there, and none is
// about to be.
func (l *ledger) isEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records.IsEmpty() && len(l.reserved) == 0
}
