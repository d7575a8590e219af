package volume

import (
	"crypto/rand"
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// retain is the reclaim policy of a volume that was brought back, until a PV of it has another one: a
// volume with the former policy would be removed as an orphan at once.
const retain = "Retain"

// Undelete brings back a deleted volume that Kept has, with its name, size, quota, owner and data. Its
// policy is Retain, and it is no orphan until it is found to be one.
//
// The error is ErrNotFound if the volume is not kept, or is being brought back or removed by another
// call, ErrConflict if its name is taken, and a fault.SpaceError, which is an ErrNoSpace, if its size
// does not fit. With an ErrNotReady it may come back when the disk answers.
func (p *Pool) Undelete(id string) (Volume, error) {
	const op = "bring back deleted volume"
	k, ok := p.kept.Get(id)
	if !ok {
		return Volume{}, fault.Failed(op, id, ErrNotFound)
	}
	if k.Why != "" {
		return Volume{}, fault.Failed(op, id, fmt.Errorf("%w: %s", ErrConflict, k.Why))
	}
	return resultOf(p.withAnyVolume, op, k.Record.Name, func(c *call) (Volume, error) {
		k, ok := p.kept.Take(id)
		if !ok {
			return Volume{}, ErrNotFound
		}
		r, err := p.undelete(c, k)
		if err != nil {
			p.kept.Return(id) // K1 leaves it alone while a record is this volume's
			return Volume{}, err
		}
		return p.volume(c, r, false), nil
	})
}

func (p *Pool) undelete(c *call, k Kept) (record.Record, error) {
	r := k.Record
	if p.records.Has(r.Name) {
		return r, fmt.Errorf("%w: another volume has the name", ErrConflict)
	}
	if err := absent(c, r.Name); err != nil {
		return r, err
	}
	if err := p.stillKept(c, k); err != nil {
		return r, err
	}
	if there, err := file.IsDir(c.Kept(), k.ID); err != nil {
		return r, err
	} else if !there {
		return r, fmt.Errorf("%w: its record is there and its directory kept/%s is not", ErrNotFound, k.ID)
	}
	wanted := space.Request{Name: r.Name, Bytes: r.Bytes, Wanted: r.Bytes, Own: min(k.Bytes, r.Bytes)}
	release, err := p.allocate(c, wanted, k.ID)
	if err != nil {
		return r, err
	}
	defer release()
	r.Returning, r.Trash = k.ID, rand.Text()
	r.ReclaimPolicy, r.Orphan, r.Stuck = retain, record.Orphan{}, ""
	r.Aside, r.Flushed = false, false
	if err := p.putFirst(c, "undelete.record", r); err != nil {
		return r, err
	}
	if err := p.bringBack(c, r); err != nil {
		return r, err
	}
	r, _ = p.records.Get(r.Name)
	p.ledger.ReadAgain()
	now, err := p.matchQuota(c, r)
	if err != nil {
		p.note(fmt.Sprintf("the quota of volume %s is not as recorded: %v", r.Name, err))
	}
	return now, nil
}

// Undelete brings back a deleted volume in a pool, as the pool's Undelete does. The error is ErrConflict
// if another pool has a volume of its name.
func (s *Pools) Undelete(in *Pool, id string) (Volume, error) {
	k, ok := in.kept.Get(id)
	if !ok {
		return in.Undelete(id) // which has the error
	}
	name := k.Record.Name
	defer s.names.LockUnbounded(name)()
	if other, _, err := s.Find(name); err == nil && other != in {
		return Volume{}, fault.Failed("bring back deleted volume", name,
			fmt.Errorf("%w: pool %s has a volume of this name", ErrConflict, other.Name()))
	}
	return in.Undelete(id)
}
