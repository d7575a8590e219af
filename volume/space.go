package volume

import (
	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Space returns what the pool has and can still promise. Refusals of Create
// follow the same numbers.
func (p *Pool) Space() (Space, error) {
	const op = "measure pool"
	var s Space
	err := p.enter(op, func(h *handle) error {
		f := p.family.Load()
		f.meter(p, h)
		// Later than the reading: what is written between the two is missing from both.
		st, err := h.Statfs()
		if err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		s = p.space(f, h, st)
		return nil
	})
	if err != nil {
		return Space{}, fault.Failed(op, p.path, err)
	}
	return s, nil
}

// space is the one answer to how much there is and can still be promised. The
// caller holds the family's mu.
func (p *Pool) space(f *family, h *handle, st *unix.Statfs_t) Space {
	risen, elsewhere := f.saw(h.Filesystem, st), f.elsewhere(p)
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	return p.ledger.account(st, p.config.Reserve, p.config.Overcommit, elsewhere, risen)
}

// reserve promises bytes to a volume whose record does not have them yet, wanted
// of them more than it has, or refuses with a SpaceError. Looking and promising are one step for all pools of the process,
// so two calls cannot both get the last bytes. release gives up a promise that
// no record took over.
func (p *Pool) reserve(h *handle, name string, bytes, wanted int64) (release func(), err error) {
	f := p.family.Load()
	f.meter(p, h)
	st, err := h.Statfs()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := p.space(f, h, st)
	if wanted > s.Promisable {
		return nil, &SpaceError{Wanted: wanted, Promisable: s.Promisable, Total: s.Total, Estimate: s.Estimate}
	}
	return p.ledger.hold(name, bytes), nil
}

// hold counts bytes for a volume whose record does not have them yet, until release.
func (l *ledger) hold(name string, bytes int64) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved[name] = bytes
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.reserved, name)
	}
}
