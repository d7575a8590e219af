package space

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Volumes have paid for the space that they use with their allocations. The more of
// it is known, the more is available to others, so what is known must never exceed
// what is true. Measurements are not current, and not taken at one moment:
//
//   - A volume may remove data after its measurement. Free space rises then, so every
//     rise is subtracted from everything that was measured before it.
//   - A volume may remove data while another writes as much, which free space does not
//     show. Walks take long, so that such data could be found in both volumes. The
//     lesser of two walks counts: a volume that only grew, or only shrank, from the
//     first to the second used at least that when the second walk began, and all
//     volumes did so at that moment. The kernel's counters are read within milliseconds.
//   - Pools are measured one after the other, and so are counters and walks. What is
//     new in one measurement may be moved data, so it is subtracted, like a rise, from
//     everything that was measured before. Counters of several pools are read together.
//   - Files may share blocks, which become free with the last of them. Shared blocks
//     do not count.
//
// Two cases remain. Data outside of the volumes that is written while as much data in
// them is removed is seen if free space is read between the two, and otherwise with the
// next measurement. Until then the answer is as if it were written after the allocation.
// And data that moves unseen into a volume which is then deleted counts for the volume
// that it came from until it leaves the trash.

// evidence is what the volumes of a pool use at least. The ledger's mu guards it.
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

// forgetUse forgets what is known of a volume's use. The caller holds mu.
func (l *Ledger) forgetUse(name string) {
	for _, m := range []map[string]int64{l.used, l.metered, l.sure.walked, l.sure.last, l.sure.written} {
		delete(m, name)
	}
}

// ForgetUses forgets what is known of all volumes' use.
func (l *Ledger) ForgetUses() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used, l.metered, l.sure = map[string]int64{}, map[string]int64{}, newEvidence()
}

// A finding is what volumes were found to use once free space had risen so far.
type finding struct{ bytes, risen int64 }

// using returns what volumes were found to use, each up to its allocation, so that one that
// outgrew it does not count twice. A volume not measured yet counts nothing: its data then
// counts as external, and less is available, never more. The caller holds mu.
func (l *Ledger) using() (all []finding, estimate bool) {
	walked, read := finding{risen: l.sure.walkedAt}, finding{risen: l.sure.readAt}
	l.records.Each(func(r record.Record) {
		if r.State == record.Deleting {
			return
		}
		if _, exact := l.metered[r.Name]; exact {
			read.bytes = add(read.bytes, min(l.sure.written[r.Name], r.Bytes))
			return
		}
		// Walked, not metered: true when it was measured.
		walked.bytes, estimate = add(walked.bytes, min(l.sure.walked[r.Name], r.Bytes)), true
	})
	return []finding{walked, read}, estimate
}

// total sums what was found.
func total(all []finding) (sum int64) {
	for _, f := range all {
		sum = add(sum, f.bytes)
	}
	return sum
}

// surely returns how much of what was found is still in use at least, now that free
// space has risen so far.
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

// begun takes over the first walk of volumes that were never walked.
func (l *Ledger) begun(s survey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.sure.last, l.still(s))
}

// learn takes over a walk through all volumes once it is complete: the use of a
// volume that was not in it is not known any more. Volumes that went meanwhile are
// left out. It returns how much was found that was not known before. The caller holds
// Filesystems' mu.
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

// read takes over a reading of the counters of all volumes, as learn does a walk. It
// is dated apart.
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

// still returns what was found of the volumes that are still there. The caller holds
// mu.
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

// growth sums what volumes use more than before.
func growth(before, now map[string]int64) (sum int64) {
	for name, bytes := range now {
		sum = add(sum, max(0, bytes-before[name]))
	}
	return sum
}

// A rise is how far the free space of a filesystem ever rose, all rises together, in
// bytes. Only rises between two readings are known: one that fell again before the next is not.
type rise struct{ free, sum int64 }

// saw notes the free space of a filesystem and returns how far it has risen so far.
// Readings noted in another order than they were taken make the rise larger, never
// smaller. The caller holds mu.
func (f *Filesystems) saw(filesystem string, st *unix.Statfs_t) int64 {
	// Not Bavail, which stays 0 while what root alone may use grows.
	free := Blocks(st.Bfree, st.Frsize)
	if f.rises[filesystem] == nil {
		f.rises[filesystem] = &rise{free: free}
	}
	r := f.rises[filesystem]
	r.sum = add(r.sum, max(0, free-r.free))
	r.free = free
	return r.sum
}

// learn takes over a walk through the volumes of a pool. Free space was noted before.
func (f *Filesystems) learn(filesystem string, l *Ledger, s survey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.rises[filesystem]; r != nil { // else the pool was another Filesystems' when it began
		r.sum = add(r.sum, l.learn(s))
	}
}

// A Reading is what the kernel counted for a pool's volumes.
type Reading struct {
	ledger *Ledger
	survey
}

// Read takes over readings that were taken one right after the other: what is new in
// one of them is subtracted from none of them.
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

// Free space that rose since a walk is in doubt. That is worth another walk from this
// much on, and from this share of what the walk found.
const (
	doubtLeast = 64 << 20
	doubtShare = 16
)

// MeasureDue reports whether free space has risen so much since the last walk that
// the pool may have more space available than it can be sure of. It reads nothing.
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
