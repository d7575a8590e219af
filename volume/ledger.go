package volume

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ledger is what a pool knows of its volumes in memory: the records, as they
// stand on disk, and what follows from them.
type ledger struct {
	mu       sync.Mutex
	records  map[string]Record
	damaged  map[string]error  // records that are there and mean nothing to us
	reserved map[string]int64  // bytes of volumes whose record does not have them yet
	used     map[string]int64  // bytes as last measured, of volumes that have a record
	metered  map[string]int64  // bytes as the kernel counts them, of volumes with a limit
	sure     evidence          // what volumes use at least
	late     map[string]State  // the disk's, of volumes that are further; see rememberLate
	strays   map[string]string // why volumes are not held to the limit that they were given; see stray
	ids      map[uint64]int    // how many volumes are recorded with each limit ID
	notes    []string          // what recovery left for a person to look at
	// filesystem is where the pool was when it was last open; "" is not known.
	filesystem string
}

// reset replaces everything but reservations with what was read from the disk.
func (l *ledger) reset(records map[string]Record, damaged map[string]error, notes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records, l.damaged, l.notes = records, damaged, notes
	l.used, l.metered, l.late = map[string]int64{}, map[string]int64{}, map[string]State{}
	l.sure = newEvidence()
	l.strays, l.ids = map[string]string{}, map[uint64]int{}
	for _, r := range records {
		l.countID(r, 1)
	}
	if l.reserved == nil {
		l.reserved = map[string]int64{}
	}
}

func (l *ledger) remember(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replace(r)
	delete(l.late, r.Name)
}

// replace sets the record of a volume. The caller holds mu.
func (l *ledger) replace(r Record) {
	l.countID(l.records[r.Name], -1)
	l.countID(r, 1)
	l.records[r.Name] = r
}

// countID adds so many volumes to those with the ID of the record. The caller holds
// mu.
func (l *ledger) countID(r Record, volumes int) {
	if r.LimitID == 0 {
		return
	}
	if l.ids[r.LimitID] += volumes; l.ids[r.LimitID] == 0 {
		delete(l.ids, r.LimitID)
	}
}

// recordedWith returns how many volumes are recorded with the limit ID.
func (l *ledger) recordedWith(id uint64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[id]
}

// rememberLate is remember for a record whose state is ahead of the disk's: what
// it says beyond that, the next start finds out again. A purge writes it.
func (l *ledger) rememberLate(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, late := l.late[r.Name]; !late {
		l.late[r.Name] = l.records[r.Name].State
	}
	l.replace(r)
	if r.State == Deleting {
		// What comes back from there was not looked at meanwhile.
		l.forgetUse(r.Name)
	}
}

// isLate reports whether that state is all that the disk says of a volume that is
// further.
func (l *ledger) isLate(name string, onDisk State) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, late := l.late[name]
	return late && state == onDisk
}

// lateRecord returns the record that is ahead of the disk's, if it is.
func (l *ledger) lateRecord(name string) (r Record, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, late = l.late[name]
	return l.records[name], late
}

// allLate lists the volumes whose records are ahead of the disk's.
func (l *ledger) allLate() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.late))
}

func (l *ledger) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countID(l.records[name], -1)
	delete(l.records, name)
	delete(l.strays, name)
	l.forgetUse(name)
	delete(l.late, name)
}

func (l *ledger) record(name string) (Record, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.records[name]
	return r, ok
}

// recordedPV reports whether a volume that is in place is the PV's.
func (l *ledger) recordedPV(pv string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if pv != "" && r.PV == pv && r.InPlace() {
			return true
		}
	}
	return false
}

// damage returns why the record of a volume cannot be understood, or nil.
func (l *ledger) damage(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damaged[name]
}

func (l *ledger) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, text)
}

// unnote forgets the notes that begin like this.
func (l *ledger) unnote(begin string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = slices.DeleteFunc(l.notes, func(n string) bool { return strings.HasPrefix(n, begin) })
}

// promised counts every volume that is not being deleted, and those about to
// be made. The caller holds mu.
func (l *ledger) promised() int64 {
	var sum int64
	for _, r := range l.records {
		if r.State != Deleting {
			sum = add(sum, r.Bytes)
		}
	}
	for name, bytes := range l.reserved {
		sum = add(sum, max(0, bytes-l.records[name].Bytes))
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

// everUsed reports whether this process knows of anything in the pool.
func (l *ledger) everUsed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)+len(l.damaged)+len(l.reserved)+len(l.notes) > 0
}
