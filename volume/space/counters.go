package space

import (
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// meterEvery is how long what the kernel counts is at least taken for current,
// and meterShare how many times as long as reading it took: a thousand volumes
// take about 50 ms on btrfs, where the counters are files.
const (
	meterEvery = time.Second
	meterShare = 20
)

// Meter takes over readings of the counters of l, and of all other pools on its
// filesystem. The caller holds no lock of f.
func (f *Filesystems) Meter(c *bounded.Call, filesystem string, l *Ledger, all []Reading) {
	for _, p := range f.others(l) {
		all = p.Read(c, all)
	}
	f.Read(filesystem, all)
}

// ReadCounters adds a reading of the pool to those that were begun before. It does nothing
// if that was done a moment ago. risen returns how far free space has risen so far,
// written how much of a volume is on the disk, if its use is known.
func (l *Ledger) ReadCounters(before []Reading, risen func() (int64, error), written func(record.Record) (int64, bool)) []Reading {
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

// ReadAgain makes reading due: what was read is forgotten.
func (l *Ledger) ReadAgain() {
	l.metering.Lock()
	defer l.metering.Unlock()
	l.meterNext = time.Time{}
}

// Count notes what the kernel counts for a volume, unless it went meanwhile.
func (l *Ledger) Count(r record.Record, bytes int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := l.has(r)
	if there {
		l.metered[r.Name] = bytes
	}
	return there
}

// Uncount notes that the kernel does not count what a volume uses.
func (l *Ledger) Uncount(r record.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has(r) {
		delete(l.metered, r.Name)
	}
}

// has reports whether the volume of the record is still there. The caller holds mu.
func (l *Ledger) has(r record.Record) bool {
	now, ok := l.records.Get(r.Name)
	return ok && now.Same(r)
}

// Begin notes that a new volume uses nothing yet, until it is metered.
func (l *Ledger) Begin(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.metered[name] = 0
}

// Inspected notes what the kernel counted for a volume once.
func (l *Ledger) Inspected(name string, u quota.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.metered[name], l.sure.written[name] = u.Bytes, u.Bytes-u.Unwritten
}
