package volume

import (
	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// Space is what a pool has and can still promise; see package space.
type Space = space.Space

// Use is what a volume takes of its promise; see package space.
type Use = space.Use

// member is the pool as the other pools on its filesystem see it.
type member struct{ p *Pool }

func (m member) Ledger() *space.Ledger { return m.p.ledger }

// Read implements pool. It does nothing if it had to wait.
func (m member) Read(c *bounded.Call, before []space.Reading) (all []space.Reading) {
	all = before
	m.p.dir.TryLook(func(d *pooldir.Dir) { all = m.p.counters(m.p.handle(c, d), all) })
	return all
}

// Space returns what the pool has and can still promise. Refusals of Create
// follow the same numbers.
func (p *Pool) Space() (Space, error) {
	const op = "measure pool"
	var s Space
	err := p.enter(op, func(h *handle) error {
		f := p.filesystems.Load()
		f.Meter(h.call, h.Filesystem, p.ledger, p.counters(h, nil))
		// Later than the reading: what is written between the two is missing from both.
		st, err := h.Statfs()
		if err != nil {
			return err
		}
		s = f.Space(h.Filesystem, p.ledger, st)
		return nil
	})
	if err != nil {
		return Space{}, fault.Failed(op, p.path, err)
	}
	return s, nil
}

// reserve allocates bytes to a volume whose record does not have them yet. It
// returns a SpaceError if those of them that are new are not available. release
// takes back what no record took over.
func (p *Pool) reserve(h *handle, name string, bytes, wanted int64) (release func(), err error) {
	f := p.filesystems.Load()
	f.Meter(h.call, h.Filesystem, p.ledger, p.counters(h, nil))
	st, err := h.Statfs()
	if err != nil {
		return nil, err
	}
	return f.Allocate(h.Filesystem, p.ledger, st, name, bytes, wanted)
}
