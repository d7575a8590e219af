//go:build linux

package space

import (
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// leastInodes is how many inodes must be free for another volume: it needs one for its directory
// and one for its record.
const leastInodes = 2

// Ledger accounts for the space of a pool: the measured use of its volumes, and allocations
// of volumes whose record does not have them. It may read the records while it holds
// mu; they never call it while they hold their lock.
type Ledger struct {
	records    *record.Store
	reserve    int64   // bytes that are never available
	overcommit float64 // how many times the space may be allocated

	metering  sync.Mutex // one reading of counters at a time
	meterNext time.Time  // when it is due again; guarded by metering

	mu       sync.Mutex       // guards what follows
	reserved map[string]int64 // bytes of volumes whose record does not have them, not yet or no longer
	used     map[string]int64 // bytes as last measured, of volumes that have a record
	metered  map[string]int64 // bytes as the kernel counts them, of volumes with a quota
	sure     evidence         // what volumes use at least
	shared   sharing          // what counters count more than once
	staged   map[string]int64 // bytes that copies have written, of volumes that are being created
	kept     int64            // bytes of kept volumes that may be offered
	// filesystem is where the pool was when it was last open; "" is not known.
	filesystem string
}

// NewLedger returns the ledger of a pool with these records. It never allocates the
// reserve, in bytes, and allocates the rest up to overcommit times.
func NewLedger(records *record.Store, reserve int64, overcommit float64) *Ledger {
	l := &Ledger{records: records, reserve: reserve, overcommit: overcommit, reserved: map[string]int64{},
		staged: map[string]int64{}}
	l.Reset()
	return l
}

// Reset removes all measurements but Shared: the records were read from the disk again, or another
// Filesystems dates measurements from now on.
func (l *Ledger) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used, l.metered, l.sure = map[string]int64{}, map[string]int64{}, newEvidence()
}

// Forget removes the measurements of a volume that is deleted or being deleted. If the
// deletion is rolled back, the volume is measured again.
func (l *Ledger) Forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.shared.last, name)
	delete(l.shared.most, name)
	for _, m := range []map[string]int64{l.used, l.metered, l.sure.walked, l.sure.last, l.sure.written} {
		delete(m, name)
	}
}

// allocated returns the sum of the sizes of all volumes that are not being deleted and of
// the reservations. The caller holds mu.
func (l *Ledger) allocated() int64 {
	var sum int64
	waiting := maps.Clone(l.reserved)
	l.records.Each(func(r record.Record) {
		if r.State == record.Deleting {
			return
		}
		sum = add(sum, r.Bytes)
		if bytes, ok := waiting[r.Name]; ok {
			waiting[r.Name] = max(0, bytes-r.Bytes)
		}
	})
	for _, bytes := range waiting {
		sum = add(sum, bytes)
	}
	return sum
}

// sums returns what is allocated, what is not written of that, and the measured use of volumes.
func (l *Ledger) sums() (allocated, unwritten int64, found []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, _ = l.using()
	return l.allocated(), l.unwritten(), found
}

// unwritten returns how much of their allocation volumes have not written, as far as the kernel counts
// it. A walk is too old for that. The caller holds mu.
func (l *Ledger) unwritten() (sum int64) {
	l.records.Each(func(r record.Record) {
		if used, exact := l.metered[r.Name]; exact && r.State != record.Deleting {
			sum = add(sum, max(0, r.Bytes-used))
		}
	})
	return sum
}

// others is what the other pools on one filesystem have allocated and use.
type others struct {
	allocated int64
	found     []finding
	unwritten int64
}

// SetKept sets how many bytes become free without the deleted volumes that are kept. They are external.
func (l *Ledger) SetKept(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = bytes
}

// account computes the space of the pool. risen is how far free space has risen so far; see
// rise. own are external bytes that a volume brings with it. The caller holds mu.
func (l *Ledger) account(st *unix.Statfs_t, elsewhere others, risen, own int64) Space {
	s := Space{
		Total:     Blocks(st.Blocks, st.Frsize),
		Free:      Blocks(st.Bavail, st.Frsize),
		Allocated: l.allocated(),
		Elsewhere: elsewhere.allocated,
	}
	found, estimate := l.using()
	all := append(found, elsewhere.found...)
	// All pools share the filesystem. What is in doubt is subtracted from this pool's use.
	sure := surely(all, risen)
	s.Used, s.Estimate = max(0, total(found)-(total(all)-sure)), estimate
	s.External = max(0, s.Total-s.Free-sure)
	reserve := min(l.reserve, s.Total)
	s.margins = margins{
		free:       s.Free - reserve,
		allocation: s.Total - s.External - reserve - scale(add(s.Allocated, s.Elsewhere), 1/l.overcommit),
		overcommit: l.overcommit,
		lacking:    max(0, add(scale(add(l.unwritten(), elsewhere.unwritten), 1/l.overcommit), reserve)-s.Free),
	}
	available := func(freed int64) int64 {
		// Free space bounds what is available. The reserve is subtracted there, too, because
		// a ratio above 1 must not allocate it.
		external := max(0, s.External-freed)
		most := scale(s.Total-external-reserve, l.overcommit)
		return min(max(0, add(s.Free, freed)-reserve), max(0, most-add(s.Allocated, s.Elsewhere)))
	}
	kept := min(l.kept, max(0, s.External-own))
	s.Available = available(own)
	s.Kept = available(add(own, kept)) - s.Available
	if st.Files > 0 && st.Ffree < leastInodes { // some filesystems, such as btrfs, count none
		// Each kept volume has more inodes than a new one needs.
		s.NoInodes, s.Available, s.Kept = true, 0, 0
		if l.kept > 0 {
			s.Kept = available(add(own, kept))
		}
	}
	return s
}

// Beside returns the space of a pool from its records alone, without measurements. The others are
// the ledgers of the other pools on its filesystem.
func (l *Ledger) Beside(st *unix.Statfs_t, others []*Ledger) Space {
	elsewhere := sumOf(others)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(st, elsewhere, 0, 0)
}

func sumOf(ledgers []*Ledger) (sum others) {
	for _, l := range ledgers {
		allocated, unwritten, found := l.sums()
		sum.allocated, sum.found = add(sum.allocated, allocated), append(sum.found, found...)
		sum.unwritten = add(sum.unwritten, unwritten)
	}
	return sum
}

// Blocks returns the bytes of n blocks of that size, at most math.MaxInt64.
func Blocks(n uint64, size int64) int64 {
	if size <= 0 {
		return 0
	}
	if n > uint64(math.MaxInt64/size) {
		return math.MaxInt64
	}
	return int64(n) * size
}

// add returns the sum of two values that are not negative, at most math.MaxInt64.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// scale multiplies bytes by the overcommit ratio. A ratio of 1 stays exact.
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

// IsEmpty reports whether nothing is allocated: there is no record and no reservation.
func (l *Ledger) IsEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records.IsEmpty() && len(l.reserved) == 0
}

// Reserve reserves bytes for a volume whose record does not have them, not yet or no longer,
// until release. What its record has counts once.
func (l *Ledger) Reserve(name string, bytes int64) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved[name] = bytes
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.reserved, name)
	}
}

// SetStaged stores how many bytes a copy has written that is not in place yet: they are part of its
// allocation. 0 forgets it.
func (l *Ledger) SetStaged(name string, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes == 0 {
		delete(l.staged, name)
		return
	}
	l.staged[name] = bytes
}

// SetFilesystem sets the filesystem that the pool is on; "" if it is not known.
func (l *Ledger) SetFilesystem(filesystem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filesystem = filesystem
}

// On reports whether the pool is on a filesystem.
func (l *Ledger) On(filesystem string) bool { return filesystem != "" && l.where() == filesystem }

// IsApart reports whether both pools are on filesystems that are known, and are not the same.
func (l *Ledger) IsApart(other *Ledger) bool {
	a, b := l.where(), other.where()
	return a != "" && b != "" && a != b
}

func (l *Ledger) where() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.filesystem
}

// Usage is the use of a volume, in bytes.
type Usage struct {
	Volume record.Record
	Bytes  int64
	// Known is false before the first walk. Exact is true if the kernel counts the volume;
	// otherwise Bytes is the result of the last walk.
	Known, Exact bool
}

// Usage returns the last measurement of a volume.
func (l *Ledger) Usage(r record.Record) Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := Usage{Volume: r}
	if u.Bytes, u.Exact = l.metered[r.Name]; u.Exact {
		u.Known = true
		return u
	}
	u.Bytes, u.Known = l.used[r.Name]
	return u
}
