package volume

import (
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/quota"
)

// meterEvery is how long what the kernel counts is at least taken for current,
// and meterShare how many times as long as reading it took: a thousand volumes
// take about 50 ms on btrfs, where the counters are files.
const (
	meterEvery = time.Second
	meterShare = 20
)

// meter takes over readings of the counters of l, and of all other pools on its
// filesystem. The caller holds no lock of the family.
func (f *family) meter(c *bounded.Call, filesystem string, l *ledger, all []reading) {
	for _, p := range f.others(l) {
		all = p.Read(c, all)
	}
	f.read(filesystem, all)
}

// counters adds a reading of the pool to those that were begun before. It does nothing
// if that was done a moment ago. risen returns how far free space has risen so far,
// written how much of a volume is on the disk, if its use is known.
func (l *ledger) counters(before []reading, risen func() (int64, error), written func(Record) (int64, bool)) []reading {
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
		if r.LimitID == 0 {
			continue
		}
		if bytes, ok := written(r); ok {
			all.found[r.Name], all.of[r.Name] = bytes, r
		}
	}
	end := time.Now()
	l.meterNext = end.Add(max(meterEvery, meterShare*end.Sub(begin)))
	return append(before, reading{l, all})
}

// meterAgain makes reading due: what was read is forgotten.
func (l *ledger) meterAgain() {
	l.metering.Lock()
	defer l.metering.Unlock()
	l.meterNext = time.Time{}
}

// count notes what the kernel counts for a volume, unless it went meanwhile.
func (l *ledger) count(r Record, bytes int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := l.has(r)
	if there {
		l.metered[r.Name] = bytes
	}
	return there
}

// uncount notes that the kernel does not say what a volume uses.
func (l *ledger) uncount(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has(r) {
		delete(l.metered, r.Name)
	}
}

// has reports whether the volume of the record is still there. The caller holds mu.
func (l *ledger) has(r Record) bool {
	now, ok := l.records.Get(r.Name)
	return ok && now.Same(r)
}

// begin notes that a new volume uses nothing yet, until it is metered.
func (l *ledger) begin(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.metered[name] = 0
}

// inspected notes what the kernel counted for a volume once.
func (l *ledger) inspected(name string, u quota.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.metered[name], l.sure.written[name] = u.Bytes, u.Bytes-u.Unwritten
}
