//go:build linux

package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// A Store holds the records of one pool, in memory and on the disk. Methods may be called from many
// goroutines. A caller that changes a record holds the lock of the volume's name.
type Store struct {
	left func(name string)

	mu       sync.Mutex // guards what follows
	records  map[string]Record
	damaged  map[string]error // records that no program of this version understands
	deferred map[string]State // states on the disk of deferred records
	ids      map[uint64]int   // how many volumes are recorded with each quota ID
	copies   Copies
}

// NewStore returns an empty store. It calls left, without its lock, after a volume
// was forgotten or began to be deleted.
func NewStore(left func(name string)) *Store {
	s := &Store{left: left}
	s.Reset(Loaded{})
	return s
}

// Reset replaces everything with what was read from the disk.
func (s *Store) Reset(all Loaded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records, s.damaged, s.deferred, s.ids = all.Records, all.Damaged, map[string]State{}, map[uint64]int{}
	s.copies = Copies{}
	if s.records == nil {
		s.records = map[string]Record{}
	}
	for _, r := range s.records {
		s.count(r, 1)
		s.copies.Add(r)
	}
}

// Set stores a record in memory that is on the disk.
func (s *Store) Set(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(r)
	delete(s.deferred, r.Name)
}

// replace sets the record of a volume. The caller holds mu.
func (s *Store) replace(r Record) {
	s.uncount(r.Name)
	s.count(r, 1)
	s.copies.Add(r)
	s.records[r.Name] = r
}

// uncount takes a volume, if it has a record, from what is counted. The caller holds mu.
func (s *Store) uncount(name string) {
	s.count(s.records[name], -1)
	s.copies.Remove(s.records[name])
}

// count adds so many volumes to those with the ID of the record. The caller holds mu.
func (s *Store) count(r Record, volumes int) {
	if r.QuotaID == 0 {
		return
	}
	if s.ids[r.QuotaID] += volumes; s.ids[r.QuotaID] == 0 {
		delete(s.ids, r.QuotaID)
	}
}

// WithQuotaID returns how many volumes are recorded with the quota ID.
func (s *Store) WithQuotaID(id uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// CopiesOf returns the copies that may have blocks of a volume, those included that are being made or
// deleted.
func (s *Store) CopiesOf(of Source) []Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copies.Of(of)
}

// Sources returns the names of the volumes, in any pool, whose blocks a copy in this one may have.
func (s *Store) Sources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copies.Sources()
}

// Defer changes a record in memory and leaves the write to the next purge. Recovery must be
// able to derive the record from the rest of the disk.
func (s *Store) Defer(r Record) {
	s.mu.Lock()
	if _, already := s.deferred[r.Name]; !already {
		s.deferred[r.Name] = s.records[r.Name].State
	}
	s.replace(r)
	s.mu.Unlock()
	if r.State == Deleting {
		s.left(r.Name)
	}
}

// isDeferred reports whether a deferred record has that state on the disk.
func (s *Store) isDeferred(name string, onDisk State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.deferred[name]
	return ok && state == onDisk
}

// SetAside marks in memory whether the directory is in the trash and may come back.
func (s *Store) SetAside(name string, aside, flushed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.records[name]; ok {
		r.Aside, r.Flushed = aside, aside && flushed
		s.records[name] = r
	}
}

// InTrash returns the records of the volumes that are in the trash and may come back, by name.
func (s *Store) InTrash() []Record { return s.Sorted(Record.InTrash) }

// Deferred returns the record of a volume, and whether its write is deferred.
func (s *Store) Deferred(name string) (r Record, deferred bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, deferred = s.deferred[name]
	return s.records[name], deferred
}

// AllDeferred lists the volumes whose records are deferred.
func (s *Store) AllDeferred() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.deferred))
}

// Forget removes a record from memory only.
func (s *Store) Forget(name string) {
	s.mu.Lock()
	s.uncount(name)
	delete(s.records, name)
	delete(s.deferred, name)
	s.mu.Unlock()
	s.left(name)
}

// Get returns the record of a volume.
func (s *Store) Get(name string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[name]
	return r, ok
}

// ByPV returns the record of the volume in place that is the PV's, the first by name if there
// are several. ok is false if there is none, as for "".
func (s *Store) ByPV(pv string) (r Record, ok bool) {
	found := s.Sorted(func(r Record) bool { return pv != "" && r.PV == pv && r.InPlace() })
	if len(found) == 0 {
		return r, false
	}
	return found[0], true
}

// Damage returns why the record of a volume cannot be understood, or nil.
func (s *Store) Damage(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damaged[name]
}

// Damaged returns the records that cannot be understood, with the reason, by name.
func (s *Store) Damaged() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := make([]string, 0, len(s.damaged))
	for name, err := range s.damaged {
		lines = append(lines, fmt.Sprintf("record %s: %v", name, err))
	}
	slices.Sort(lines)
	return lines
}

// Has reports whether there is a record for the name, damaged or not.
func (s *Store) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.records[name]
	return ok || s.damaged[name] != nil
}

// IsEmpty reports whether there is no record, damaged ones included.
func (s *Store) IsEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)+len(s.damaged) == 0
}

// Each calls do for every record, in no order, while no record can change. do must
// not call the store.
func (s *Store) Each(do func(Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		do(r)
	}
}

// InPlace returns the records of the volumes that are in place, by name.
func (s *Store) InPlace() []Record { return s.Sorted(Record.InPlace) }

// Unfinished returns the records of the volumes that are half made or half deleted, by name.
func (s *Store) Unfinished() []Record {
	return s.Sorted(func(r Record) bool { return !r.InPlace() })
}

// Sorted returns the records to keep, by name. keep must not call the store.
func (s *Store) Sorted(keep func(Record) bool) (all []Record) {
	s.Each(func(r Record) {
		if keep(r) {
			all = append(all, r)
		}
	})
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
