//go:build linux

package space

import (
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A reading of the kernel's counters stays current for meterEvery, or for meterShare times
// the duration of the reading if that is longer: a thousand volumes take about 50 ms on
// btrfs, where the counters are files.
const (
	meterEvery = time.Second
	meterShare = 20
)

// Meter stores the readings of the counters of l, which the caller took, and reads and
// stores those of all other pools on its filesystem. The caller holds no lock of f.
func (f *Filesystems) Meter(c *bounded.Call, filesystem string, l *Ledger, all []Reading) {
	for _, p := range f.others(l, l.where()) {
		all = p.Read(c, all)
	}
	f.Read(filesystem, all)
}

// ReadCounters appends a reading of the pool to before. It does nothing while the last
// reading is current. risen returns how far free space has risen so far. written returns
// how much of a volume is on the disk, if that is known.
func (l *Ledger) ReadCounters(before []Reading, risen func() (int64, error),
	written func(record.Record) (int64, bool)) []Reading {
	l.metering.Lock()
	defer l.metering.Unlock()
	begin := time.Now()
	if begin.Before(l.meterNext) {
		return before
	}
	all := newSurvey()
	var err error
	if all.risen, err = risen(); err != nil {
		return before
	}
	for _, r := range l.records.InPlace() {
		if r.QuotaID == 0 {
			continue
		}
		if bytes, ok := written(r); ok {
			all.found[r.Name], all.of[r.Name] = bytes, r
		}
	}
	end := time.Now()
	l.meterNext = end.Add(max(meterEvery, meterShare*end.Sub(begin)))
	return append(before, Reading{l, all})
}

// ReadAgain makes the next reading due at once.
func (l *Ledger) ReadAgain() {
	l.metering.Lock()
	defer l.metering.Unlock()
	l.meterNext = time.Time{}
}

// Count stores what the kernel counts for a volume. It returns false, and stores nothing,
// if the volume has been deleted or replaced since the record was read.
func (l *Ledger) Count(r record.Record, bytes int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := l.has(r)
	if there {
		l.metered[r.Name] = bytes
	}
	return there
}

// Uncount stores that the kernel does not count what a volume uses.
func (l *Ledger) Uncount(r record.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has(r) {
		delete(l.metered, r.Name)
	}
}

// has reports whether the volume of the record still exists. The caller holds mu.
func (l *Ledger) has(r record.Record) bool {
	now, ok := l.records.Get(r.Name)
	return ok && now.Same(r)
}

// Begin stores that a new volume uses no space, until its counter is read.
func (l *Ledger) Begin(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.metered[name] = 0
}

// Inspected stores a reading that was taken for one volume alone.
func (l *Ledger) Inspected(name string, u quota.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.metered[name], l.sure.written[name] = u.Bytes, u.Bytes-u.Unwritten
}
