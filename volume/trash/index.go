package trash

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Kept is a deleted volume that is kept, so that it can be brought back.
type Kept struct {
	// ID is its name among the kept volumes, which no other volume gets.
	ID string
	// Record is the one that the volume had.
	Record record.Record
	// Since is when it was deleted, by the clock of the node, and Age for how long agents have run
	// since then. It is removed at the age For, or before if room is needed.
	Since    time.Time
	Age, For time.Duration
	// Bytes become free for sure when it is removed; 0 if they were not measured yet.
	Bytes int64
	// Why is why it can be neither brought back nor removed; "" if it can.
	Why string
}

// SavedName is the file in the private directory of a pool with a Saved of each kept volume, by ID.
const SavedName = "kept.json"

// Saved is what a process notes of a kept volume for the next one. Without it the volume is as if it
// was just deleted, and none of its bytes are sure.
type Saved struct {
	Seconds int64     `json:"seconds"` // for which agents have run since the deletion
	Bytes   int64     `json:"bytes,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Bounded returns the values, so far as they are possible: sums of them do not overflow.
func (s Saved) Bounded() Saved {
	const century, most = 100 * 365 * 24 * 60 * 60, 1 << 50
	s.Seconds, s.Bytes = min(max(0, s.Seconds), century), min(max(0, s.Bytes), most)
	return s
}

// Index has the kept volumes of a pool in memory. A caller that brings a volume back or removes it takes
// it first, so that no other does. Methods may be called from many goroutines.
type Index struct {
	running func() time.Duration

	mu      sync.Mutex // guards the following fields
	entries map[string]*entry
	copies  record.Copies
	changed bool // something was added that is not flushed
}

type entry struct {
	Kept
	at       time.Duration // the running time at which Age was as in Kept
	tried    bool          // it was attempted to measure its bytes, by this process or one before
	measured bool          // that succeeded once
	all      bool          // no more of its bytes can be sure: nothing shares them
	due      time.Duration // the running time at which they are to be measured again
	taken    bool
}

// NewIndex returns an empty index with that clock.
func NewIndex(running func() time.Duration) *Index {
	return &Index{running: running, entries: map[string]*entry{}}
}

// Reset replaces everything with what was found on the disk, where all of it is flushed.
func (x *Index) Reset(all []Kept) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries, x.copies, x.changed = map[string]*entry{}, record.Copies{}, false
	for _, k := range all {
		x.copies.Add(k.Record)
		x.entries[k.ID] = &entry{Kept: k, at: x.running(), tried: k.Bytes > 0 || k.Why != ""}
	}
}

// Add adds a volume that was just moved to the kept ones. The disk has its record after the next flush.
func (x *Index) Add(r record.Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changed = true
	k := Kept{ID: r.Trash, Record: r, Since: time.Now().UTC().Truncate(time.Second)}
	x.entries[r.Trash] = &entry{Kept: k, at: x.running()}
	x.copies.Add(r)
}

// Changed reports whether Add was called since the last time.
func (x *Index) Changed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() { x.changed = false }()
	return x.changed
}

// Unflushed makes Changed return true: the flush failed.
func (x *Index) Unflushed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changed = true
}

// Get returns a kept volume that nothing has taken.
func (x *Index) Get(id string) (Kept, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.entries[id]
	if !ok || e.taken {
		return Kept{}, false
	}
	return x.now(e), true
}

// Take is Get, and nothing else can take the volume until Return.
func (x *Index) Take(id string) (Kept, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.entries[id]
	if !ok || e.taken {
		return Kept{}, false
	}
	e.taken = true
	return x.now(e), true
}

// Return gives a volume back that was taken, and is kept as before.
func (x *Index) Return(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e, ok := x.entries[id]; ok {
		e.taken = false
	}
}

// Remove removes a volume that is not kept any more.
func (x *Index) Remove(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e, ok := x.entries[id]; ok {
		x.copies.Remove(e.Record)
	}
	delete(x.entries, id)
}

// CopiesOf returns the copies among the kept volumes that may have blocks of a volume.
func (x *Index) CopiesOf(of record.Source) []record.Copy {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.copies.Of(of)
}

// Sources returns the names of the volumes, in any pool, whose blocks a kept copy may have.
func (x *Index) Sources() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.copies.Sources()
}

// Has reports whether a kept volume was of that name and created at that time.
func (x *Index) Has(name string, created time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		if e.Record.SameVolume(record.Record{Name: name, Created: created}) {
			return true
		}
	}
	return false
}

// All returns the kept volumes that nothing has taken, the oldest first.
func (x *Index) All() []Kept {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []Kept
	for _, e := range x.entries {
		if !e.taken {
			all = append(all, x.now(e))
		}
	}
	slices.SortFunc(all, older)
	return all
}

// older compares by age, and then by what does not change.
func older(a, b Kept) int {
	return cmp.Or(cmp.Compare(b.Age, a.Age), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
}

// now returns the volume with its age. The caller holds mu.
func (x *Index) now(e *entry) Kept {
	k := e.Kept
	k.Age += x.running() - e.at
	return k
}

// Bytes returns how many bytes become free for sure without the kept volumes that nothing has taken,
// and how many volumes that are.
func (x *Index) Bytes() (sum int64, volumes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		if !e.taken && e.Why == "" {
			sum, volumes = sum+e.Bytes, volumes+1
		}
	}
	return sum, volumes
}

// measureAgain is after how long bytes are measured once more: data that was not written to the disk at
// the first time has no extents. measureShared is the same for volumes that share some of theirs: they
// become their own when the other files change.
const (
	measureAgain  = time.Minute
	measureShared = 10 * time.Minute
)

// Unmeasured returns a volume whose bytes are to be measured; ok is false if there is none. It returns no
// volume twice within a minute. The volume may be brought back or removed while it is measured.
func (x *Index) Unmeasured() (k Kept, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		if !e.taken && e.Why == "" && !e.all && x.running() >= e.due {
			e.tried, e.due = true, x.running()+measureAgain
			return x.now(e), true
		}
	}
	return Kept{}, false
}

// Untried reports whether there is a volume whose bytes are not known because nothing has measured them
// yet. Until then it is not known which namespace has most.
func (x *Index) Untried() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		if !e.tried && !e.taken {
			return true
		}
	}
	return false
}

// Measured stores how many bytes a walk of a volume found in all, and how many of them become free for
// sure. It does nothing for a volume that is not kept any more.
func (x *Index) Measured(id string, all, sure int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, there := x.entries[id]
	if !there || e.taken {
		return
	}
	if e.measured {
		e.due = x.running() + measureShared
	}
	e.measured, e.all, e.Bytes = true, sure >= all, sure
}

// Saved returns what the next process needs.
func (x *Index) Saved() map[string]Saved {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := map[string]Saved{}
	for id, e := range x.entries {
		k := x.now(e)
		all[id] = Saved{Seconds: int64(k.Age / time.Second), Bytes: k.Bytes, Since: k.Since}
	}
	return all
}
