package volume

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// meterEvery is how long what the kernel counts is at least taken for current,
// and meterShare how many times as long as reading it took: a thousand volumes
// take about 50 ms on btrfs, where the counters are files.
const (
	meterEvery = time.Second
	meterShare = 20
)

// meter reads what the volumes with limits use, in every pool on the
// filesystem of p. The caller holds no lock of the family.
func (f *family) meter(p *Pool, h *handle) {
	all := p.counters(h, nil)
	at := p.ledger.where()
	for _, other := range f.pools {
		if other == p || at == "" || other.ledger.where() != at {
			continue
		}
		// Without waiting: two pools that wait for each other here, and a third call
		// that waits to reopen one of them, would wait for ever. What was read last
		// will do.
		other.dir.TryLook(func(d *pooldir.Dir) { all = other.counters(other.handle(h.call, d), all) })
	}
	f.read(h.Filesystem, all)
}

// meter reads what the volumes with limits use.
func (p *Pool) meter(h *handle) { p.family.Load().read(h.Filesystem, p.counters(h, nil)) }

// counters adds a reading of the pool to those that were begun before. It does nothing
// where that was done a moment ago.
func (p *Pool) counters(h *handle, before []reading) []reading {
	if h.support.Method == quota.MethodNone {
		return before
	}
	p.metering.Lock()
	defer p.metering.Unlock()
	begin := time.Now()
	if begin.Before(p.meterNext) {
		return before
	}
	risen, err := p.risen(h)
	if err != nil {
		return before
	}
	all := survey{risen: risen, found: map[string]int64{}, of: map[string]Record{}}
	for _, r := range p.records.InPlace() {
		if r.LimitID == 0 {
			continue
		}
		h.call.Progress()
		if u, ok := p.meterOne(h, r); ok {
			all.found[r.Name], all.of[r.Name] = u.Bytes-u.Unwritten, r
		}
	}
	end := time.Now()
	p.meterNext = end.Add(max(meterEvery, meterShare*end.Sub(begin)))
	return append(before, reading{p, all})
}

// meterAgain makes reading due: what was read is forgotten.
func (p *Pool) meterAgain() {
	p.metering.Lock()
	defer p.metering.Unlock()
	p.meterNext = time.Time{}
}

// meterOne forgets what a volume used where the kernel does not say any more. Of a
// volume whose directory shows another ID than the recorded one it still reads what
// is counted for its own, and never what is counted for the other.
func (p *Pool) meterOne(h *handle, r Record) (u quota.Usage, ok bool) {
	u, err := h.usage(r)
	var stray error
	switch {
	case p.family.Load().recorded(p, h.Filesystem, r.LimitID) > 1:
		u, err, stray = quota.Usage{}, nil, errShared // it may be the other's
	case errors.Is(err, quota.ErrForeign):
		err, stray = nil, err
	case errors.Is(err, quota.ErrUnlimited):
		stray = err
	}
	p.strayedStill(r, stray)
	if err != nil {
		p.ledger.uncount(r)
		return u, false
	}
	return u, p.ledger.count(r, u.Bytes)
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

// usage returns what the kernel counts for a volume.
func (h *handle) usage(r Record) (quota.Usage, error) {
	if r.LimitID == 0 {
		return quota.Usage{}, quota.ErrUnlimited // whatever ID the directory shows
	}
	dir, err := tree.OpenDir(h.Base, r.Name)
	if err != nil {
		return quota.Usage{}, fault.Path("open", r.Name, err)
	}
	defer unix.Close(dir)
	return h.limits.Usage(dir, r.LimitID)
}

// asNoLimits is the error of this package for a directory without a limit.
func asNoLimits(err error) error {
	switch {
	case errors.Is(err, quota.ErrNone), errors.Is(err, quota.ErrUnlimited), errors.Is(err, quota.ErrForeign):
		return fmt.Errorf("%w: %w", ErrNoLimits, err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: its record is there and its directory is not", ErrNotFound)
	}
	return err
}

// Usage returns what the kernel counts for a volume with a limit, and the
// limit in force. What was removed a moment ago may still be in it.
//
// The error is ErrNotFound where there is no volume, ErrNoLimits where it has
// no limit.
func (p *Pool) Usage(name string) (quota.Usage, error) {
	const op = "read the usage of volume"
	if err := p.checkName(name); err != nil {
		return quota.Usage{}, fault.Failed(op, name, err)
	}
	var u quota.Usage
	err := p.enter(op, func(h *handle) (err error) {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		u, err = h.usage(r)
		return asNoLimits(err)
	})
	if err != nil {
		return quota.Usage{}, fault.Failed(op, name, err)
	}
	return u, nil
}
