package volume

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space returns what the pool has and can still promise. Refusals of Create
// follow the same numbers.
func (p *Pool) Space() (s Space, err error) {
	err = p.enter(func(h *handle) error {
		st, err := h.statfs()
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		s = p.account(st, p.config.Reserve, p.config.Overcommit)
		return nil
	})
	return s, failed("measure pool", p.path, err)
}

// reserve promises bytes to a volume that has no record yet, or refuses with a
// SpaceError. Looking and promising are one step, so two calls cannot both get
// the last bytes. release gives up a promise that no record took over.
func (p *Pool) reserve(h *handle, name string, bytes int64) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st, err := h.statfs()
	if err != nil {
		return nil, err
	}
	s := p.account(st, p.config.Reserve, p.config.Overcommit)
	if bytes > s.Promisable {
		return nil, &SpaceError{Wanted: bytes, Promisable: s.Promisable, Total: s.Total, Estimate: s.Estimate}
	}
	p.reserved[name] = bytes
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.reserved, name)
	}, nil
}

// looseMode warns of a directory that lets others in: they would reach every
// volume whose own mode lets them.
func looseMode(base int, path string) []string {
	var st unix.Stat_t
	if err := unix.Fstat(base, &st); err != nil || st.Mode&0o007 == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the node's other users can enter %s (mode %04o): chmod 0700 %s",
		path, st.Mode&0o7777, path)}
}
