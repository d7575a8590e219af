//go:build linux

package space

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The space that a volume uses is part of its allocation, so used space must not also reduce what
// is available to others. The more use is known, the more is available. Therefore the known use
// must never exceed the true use. Measurements are old, and are not taken at one moment:
//
//   - A volume may remove data after its measurement. Free space then rises. Every rise is
//     subtracted from all measurements before it.
//   - One volume may remove data while another writes as much. Free space does not show that, and a
//     walk takes long enough to find such data in both volumes. The lesser of two walks counts: a
//     volume that only grew, or only shrank, between them used at least that much when the second
//     walk began. Counters are read within milliseconds and need no second reading.
//   - Pools are measured one after the other, and so are counters and walks. Data that is
//     new in one measurement may have been moved there. It is subtracted, like a rise,
//     from all measurements before. Counters of several pools are read together.
//   - Files may share blocks, which become free with the last of the files. Shared blocks
//     do not count: walks leave them out, and what a walk found of them is subtracted from a
//     counter that has them for each file; see sharing.
//
// Three cases remain:
//
//   - A tenant shares blocks after the walk, and the counter has them twice until the next one.
//   - Data is written outside of the volumes while as much is removed in them. The agent notices
//     that if it reads free space between the two, and otherwise with the next measurement. Until
//     then the result is the one that data written after the allocation would cause.
//   - Data moves unseen into a volume that is then deleted. It counts for the volume that
//     it came from until it leaves the trash.

// evidence is the space that the volumes of a pool use at least. The ledger's mu guards it.
type evidence struct {
	walked  map[string]int64 // the lesser of the last two walks
	last    map[string]int64 // the last walk
	written map[string]int64 // the last reading of all counters, of what is on the disk
	// walkedAt and readAt are how far free space had risen when the last walk of all
	// volumes began, and the last reading of counters.
	walkedAt, readAt int64
}

func newEvidence() evidence {
	return evidence{walked: map[string]int64{}, last: map[string]int64{}, written: map[string]int64{}}
}

// A finding is the measured use of volumes, and risen how far free space had risen by then.
type finding struct{ bytes, risen int64 }

// using returns the measured use of the volumes, each up to its allocation: use beyond the
// allocation is external. A volume that was not measured yet counts as 0, so that its data
// is external, too, and less is available, never more. estimate is true if a volume was
// walked and not counted by the kernel. The caller holds mu.
func (l *Ledger) using() (all []finding, estimate bool) {
	walked, read := finding{risen: l.sure.walkedAt}, finding{risen: l.sure.readAt}
	l.records.Each(func(r record.Record) {
		if r.State == record.Deleting {
			return
		}
		if bytes, staged := l.staged[r.Name]; staged { // as sure as a counter that was read earlier
			read.bytes = add(read.bytes, min(bytes, r.Bytes))
			return
		}
		if _, exact := l.metered[r.Name]; exact {
			written := max(0, l.sure.written[r.Name]-l.shared.of(r))
			read.bytes = add(read.bytes, min(written, r.Bytes))
			return
		}
		// A walk is exact only at the time of the walk.
		walked.bytes, estimate = add(walked.bytes, min(l.sure.walked[r.Name], r.Bytes)), true
	})
	return []finding{walked, read}, estimate
}

func total(all []finding) (sum int64) {
	for _, f := range all {
		sum = add(sum, f.bytes)
	}
	return sum
}

// surely returns how much of the findings is surely in use, if free space has risen to risen.
func surely(all []finding, risen int64) (sum int64) {
	all = slices.SortedFunc(slices.Values(all), func(a, b finding) int { return cmp.Compare(a.risen, b.risen) })
	for i, f := range all {
		until := risen
		if i+1 < len(all) {
			until = all[i+1].risen
		}
		sum = add(sum, f.bytes)
		sum -= min(sum, max(0, until-f.risen))
	}
	return sum
}

// begun stores the first walk of volumes that were never walked.
func (l *Ledger) begun(s survey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.sure.last, l.still(s))
}

// learn stores a complete walk of all volumes and returns how much of it is new. The use
// of a volume that was not walked becomes unknown. Volumes deleted since are left out. The
// caller holds Filesystems' mu.
func (l *Ledger) learn(s survey) (grown int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sure, last := map[string]int64{}, l.still(s)
	for name, bytes := range last {
		if before, ok := l.sure.last[name]; ok {
			sure[name] = min(before, bytes)
		}
	}
	grown = growth(l.sure.walked, sure)
	l.sure.walked, l.sure.last, l.sure.walkedAt = sure, last, add(s.risen, grown)
	return grown
}

// read stores a reading of the counters of all volumes and returns how much of it is new.
// The caller calls date afterwards.
func (l *Ledger) read(s survey) (grown int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	written := l.still(s)
	grown = growth(l.sure.written, written)
	l.sure.written = written
	return grown
}

// date sets how far free space had risen when the counters were read.
func (l *Ledger) date(risen int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sure.readAt = risen
}

// still returns the measurements of the volumes that still exist. The caller holds mu.
func (l *Ledger) still(s survey) map[string]int64 {
	found := map[string]int64{}
	for name, bytes := range s.found {
		now, ok := l.records.Get(name)
		if ok && now.Same(s.of[name]) && now.State != record.Deleting {
			found[name] = bytes
		}
	}
	return found
}

// growth returns by how much volumes use more than before, in all.
func growth(before, now map[string]int64) (sum int64) {
	for name, bytes := range now {
		sum = add(sum, max(0, bytes-before[name]))
	}
	return sum
}

// A rise is the sum of all rises of a filesystem's free space, in bytes. A rise that fell
// again before the next reading is not seen.
type rise struct{ free, sum int64 }

// saw stores the free space of a filesystem and returns how far it has risen so far. Readings in
// another order make the rise larger, never smaller. The caller holds mu.
func (f *Filesystems) saw(filesystem string, st *unix.Statfs_t) int64 {
	// Bfree, because Bavail stays 0 while only root's reserve grows.
	free := Blocks(st.Bfree, st.Frsize)
	if f.rises[filesystem] == nil {
		f.rises[filesystem] = &rise{free: free}
	}
	r := f.rises[filesystem]
	r.sum = add(r.sum, max(0, free-r.free))
	r.free = free
	return r.sum
}

// learn stores a walk of the volumes of a pool. The caller has called Risen before the walk.
func (f *Filesystems) learn(filesystem string, l *Ledger, s survey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.rises[filesystem]; r != nil { // nil if the pool moved to another filesystem meanwhile
		r.sum = add(r.sum, l.learn(s))
	}
}

// A Reading is a reading of the kernel's counters of a pool's volumes.
type Reading struct {
	ledger *Ledger
	survey
}

// Read stores readings that were taken one right after the other. Growth in one of them is
// therefore not subtracted from the others.
func (f *Filesystems) Read(filesystem string, all []Reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rises[filesystem]
	if r == nil {
		return
	}
	var grown int64
	for _, one := range all {
		grown = add(grown, one.ledger.read(one.survey))
	}
	r.sum = add(r.sum, grown)
	for _, one := range all {
		one.ledger.date(add(one.risen, grown))
	}
}

// Risen is saw for a caller that does not hold mu.
func (f *Filesystems) Risen(filesystem string, st *unix.Statfs_t) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.saw(filesystem, st)
}

// After a rise of free space, as much of the last walk is in doubt. Another walk is due
// once that is at least doubtLeast bytes and one part in doubtShare of the walk.
const (
	doubtLeast = 64 << 20
	doubtShare = 16
)

// MeasureDue reports whether free space has risen so much since the last walk that another
// walk may find more space available. It reads no disk.
func (f *Filesystems) MeasureDue(l *Ledger) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rises[l.where()]
	if r == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all, _ := l.using()
	walked := all[0]
	doubt := min(walked.bytes, r.sum-walked.risen)
	return doubt >= max(doubtLeast, walked.bytes/doubtShare)
}
