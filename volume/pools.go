package volume

import (
	"errors"
	"fmt"
	"sync"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// Pools are all pools of one node, in the order of the configuration. A volume's name is unique
// among them, so that a name alone finds its volume. Methods may be called from many goroutines.
type Pools struct {
	all []*Pool
	// names has the locks of Create and Delete. Under one of them a call waits for a disk no
	// longer than its pool's Patience.
	names bounded.NameLocks
}

// NewPools joins pools: from then on bytes that one pool allocates are not available in another on
// the same filesystem, and a pool whose directory another one has open returns an error. The caller
// opens and closes the pools, before or after. One that is not ready stops no other.
//
// The error is an ErrInvalid if there is no pool, or two have the same name or none.
func NewPools(all ...*Pool) (*Pools, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: there is no pool", ErrInvalid)
	}
	seen, members := map[string]bool{}, []space.Member{}
	for _, p := range all {
		if p.Name() == "" || seen[p.Name()] {
			return nil, fmt.Errorf("%w: the pool at %s has the name %q; every pool needs one of its own", ErrInvalid, p.Path(),
				p.Name())
		}
		seen[p.Name()] = true
		members = append(members, member{p})
	}
	f := space.NewFilesystems(members...)
	for _, p := range all {
		p.filesystems.Store(f)
		p.siblings.Store(&all)
		p.ledger.Reset() // the former Filesystems dated them
		p.ledger.ReadAgain()
	}
	return &Pools{all: all}, nil
}

// All returns the pools in the order of the configuration.
func (s *Pools) All() []*Pool { return s.all }

// Names returns the pools' names in the order of the configuration.
func (s *Pools) Names() []string {
	names := make([]string, len(s.all))
	for i, p := range s.all {
		names[i] = p.Name()
	}
	return names
}

// Paths returns the directories of pools.
func Paths(pools []*Pool) (all []string) {
	for _, p := range pools {
		all = append(all, p.Path())
	}
	return all
}

// Named returns the pool of that name, nil if there is none.
func (s *Pools) Named(name string) *Pool {
	for _, p := range s.all {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// Open opens all pools at the same time, and returns the errors of those that cannot be
// opened. A disk that does not answer delays the call by no more than its pool's Patience.
func (s *Pools) Open() map[*Pool]error { return s.each((*Pool).Open) }

// Close closes all pools at the same time, and returns the errors of those whose disk does
// not answer: they keep their lock.
func (s *Pools) Close() map[*Pool]error { return s.each((*Pool).Close) }

func (s *Pools) each(do func(*Pool) error) map[*Pool]error {
	errs := make([]error, len(s.all))
	var all sync.WaitGroup
	for i, p := range s.all {
		all.Go(func() { errs[i] = do(p) })
	}
	all.Wait()
	failures := map[*Pool]error{}
	for i, err := range errs {
		if err != nil {
			failures[s.all[i]] = err
		}
	}
	return failures
}

// Find returns the volume of that name, as Get does, and its pool.
//
// The error is ErrNotFound if all pools answered and none has it. If a pool cannot answer, the
// volume may be there, and the error is that pool's. Pools that are not offered do not count.
func (s *Pools) Find(name string) (*Pool, Volume, error) {
	if err := CheckName(name); err != nil {
		return nil, Volume{}, fault.Failed("find volume", name, err)
	}
	return s.first("find volume", name, func(p *Pool) bool { return p.records.Has(name) },
		func(p *Pool) (Volume, error) { return p.Get(name) })
}

// ByPV returns the volume that the PV names, and its pool. Errors are those of Find.
func (s *Pools) ByPV(pv string) (*Pool, Volume, error) {
	return s.first("find volume of PV", pv, func(p *Pool) bool { _, has := p.records.ByPV(pv); return has },
		func(p *Pool) (Volume, error) { return p.ByPV(pv) })
}

// first asks the pools that have the volume in memory before the others: one of those may be
// on a disk that does not answer.
func (s *Pools) first(op, name string, has func(*Pool) bool, get func(*Pool) (Volume, error)) (*Pool, Volume, error) {
	var order, others []*Pool
	for _, p := range s.all {
		if has(p) {
			order = append(order, p)
		} else {
			others = append(others, p)
		}
	}
	var err error
	for _, p := range append(order, others...) {
		v, why := get(p)
		switch {
		case why == nil:
			return p, v, nil
		case errors.Is(why, ErrInvalid), errors.Is(why, ErrNotFound), p.NotOffered() != "":
			// ErrInvalid: the name of a pool inside this one. One that is not offered has no volume.
		case err == nil:
			err = why
		}
	}
	if err == nil {
		err = fault.Failed(op, name, ErrNotFound)
	}
	return nil, Volume{}, err
}

// Create creates a volume in a pool, as the pool's Create does. The error is ErrConflict if
// another pool has a volume of its name, and ErrCloning while one makes it as a copy. A pool that cannot
// answer does not count: it must not keep the others from working.
func (s *Pools) Create(in *Pool, spec Spec) (Volume, error) {
	defer s.names.LockUnbounded(spec.Name)()
	if err := s.notMade(in, spec.Name); err != nil {
		return Volume{}, fault.Failed("create volume", spec.Name, err)
	}
	if other, _, err := s.Find(spec.Name); err == nil && other != in {
		return Volume{}, fault.Failed("create volume", spec.Name,
			fmt.Errorf("%w: pool %s has a volume of this name, requested in pool %s",
				ErrConflict, other.Name(), in.Name()))
	}
	return in.Create(spec)
}

// notMade returns an ErrCloning while another pool than this one makes a volume of that name as a copy.
// Find does not return it yet.
func (s *Pools) notMade(in *Pool, name string) error {
	for _, other := range s.all {
		if err := other.clones.running(name); err != nil && other != in {
			return fmt.Errorf("in pool %s: %w", other.Name(), err)
		}
	}
	return nil
}

// Clone makes a clone in a pool, as the pool's Clone does. The error is ErrConflict if another pool has
// a volume of its name, and ErrCloning while another pool makes one.
func (s *Pools) Clone(in *Pool, spec CloneSpec) (Volume, error) {
	if job, ok := in.CloneJob(spec.Name); ok {
		select {
		case <-job.Ended:
		default: // it may take long, and the name is its own
			return in.Clone(spec)
		}
	}
	defer s.names.LockUnbounded(spec.Name)()
	if err := s.notMade(in, spec.Name); err != nil {
		return Volume{}, fault.Failed("clone volume", spec.Name, err)
	}
	if other, _, err := s.Find(spec.Name); err == nil && other != in {
		return Volume{}, fault.Failed("clone volume", spec.Name,
			fmt.Errorf("%w: pool %s has a volume of this name, requested in pool %s",
				ErrConflict, other.Name(), in.Name()))
	}
	return in.Clone(spec)
}

// Delete deletes a volume in the pool that has it, and returns that pool. It does nothing if
// want is not nil and returns false for the volume.
//
// If no pool has the volume, Delete calls every pool's Delete, for a volume that is half
// deleted or has no record, and returns no pool. A pool that is not offered cannot answer:
// the volume may be another program's there.
func (s *Pools) Delete(name string, want func(Volume) bool) (*Pool, error) {
	defer s.names.LockUnbounded(name)()
	p, v, err := s.Find(name)
	switch {
	case err == nil && want != nil && !want(v):
		return nil, nil
	case err == nil:
		return p, p.Delete(name)
	case !errors.Is(err, ErrNotFound):
		return nil, err
	case want != nil:
		return nil, nil
	}
	for _, p := range s.all {
		if err := p.Delete(name); err != nil && !errors.Is(err, ErrInvalid) {
			return nil, err
		}
	}
	return nil, nil
}

// pools returns all pools of the process.
func (p *Pool) pools() []*Pool {
	if all := p.siblings.Load(); all != nil {
		return *all
	}
	return []*Pool{p}
}
