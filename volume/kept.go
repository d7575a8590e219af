package volume

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/trash"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Kept is a deleted volume that is kept, so that Undelete can bring it back.
type Kept = trash.Kept

// Kept returns the deleted volumes that are kept, the oldest first. It reads no disk.
func (p *Pool) Kept() []Kept {
	all := p.kept.All()
	for i := range all {
		all[i].For = p.keptFor(all[i].Record)
	}
	return all
}

// RoomWanted returns a channel that has a value after a call returned a fault.SpaceError with
// MakingRoom, or Space found that the filesystem has too little: the next Purge removes kept volumes for it.
func (p *Pool) RoomWanted() <-chan struct{} { return p.room.Wanted() }

// keptFor returns for how long the volume of a record is kept once it is deleted.
func (p *Pool) keptFor(r record.Record) time.Duration {
	switch {
	case r.TrashRetention < 0:
		return 0
	case r.TrashRetention == 0:
		return p.config.TrashRetention
	}
	most := int64(p.config.TrashRetentionMax / time.Second)
	return time.Duration(min(r.TrashRetention, most)) * time.Second
}

// destination returns the directory to which a volume is moved that is being deleted: that of the kept
// volumes, or the trash. Inline and empty volumes are not kept, nor is a volume that never had a PV:
// what is in it is a part of a copy. On a full disk it is the trash.
func (p *Pool) destination(c *call, r record.Record) (int, error) {
	if r.Ephemeral || r.State != record.Bound || p.keptFor(r) <= 0 {
		return c.Trash, nil
	}
	dir, err := tree.OpenDir(c.Base, r.Name)
	if err != nil {
		return -1, fault.Path("open", r.Name, err)
	}
	defer unix.Close(dir)
	empty, err := tree.Empty(dir)
	if err != nil {
		return -1, fault.Path("read", r.Name, err)
	}
	if empty {
		return c.Trash, nil
	}
	to, err := c.MakeKept()
	// The record on the disk is what a start has of the volume, so all of it has to be there.
	if _, deferred := p.records.Deferred(r.Name); deferred && err == nil {
		p.step("delete.record")
		err = p.put(c, r)
	}
	if fault.IsFull(err) {
		return c.Trash, nil
	}
	return to, err
}

// DropKept moves kept volumes to the trash, which the next Purge empties.
//
// The joined errors have the volumes that stay: ErrNotFound for one that is not kept or is being
// brought back, ErrConflict for one that may be needed still.
func (p *Pool) DropKept(ids ...string) error {
	return p.withPoolInSteps("remove kept volumes of pool", p.path, func(c *call) error {
		st, err := p.statfs(c)
		if err != nil {
			return err
		}
		var errs []error
		for _, id := range ids {
			c.Progress()
			if err := c.StillWanted(); err != nil {
				return errors.Join(append(errs, err)...)
			}
			errs = append(errs, fault.Failed("remove kept volume", id, p.dropOne(c, id, freeBytes(st))))
		}
		return errors.Join(errs...)
	})
}

// dropOne is row K1 for one volume that is kept, while so many bytes are free.
func (p *Pool) dropOne(c *call, id string, free int64) error {
	k, ok := p.kept.Take(id)
	if !ok {
		return ErrNotFound
	}
	err := p.leave(c, k)
	if err != nil {
		p.kept.Return(id)
		return err
	}
	p.room.Leaves(id, k.Bytes, free)
	p.kept.Remove(id)
	return nil
}

// leave moves a kept volume to the trash, unless a record of the pool may be that volume's. The caller
// has taken it.
func (p *Pool) leave(c *call, k Kept) error {
	if k.Why != "" {
		return fmt.Errorf("%w: %s", ErrConflict, k.Why)
	}
	if now, ok := p.records.Get(k.Record.Name); ok && now.SameVolume(k.Record) {
		return fmt.Errorf("%w: volume %s of the pool is this one", ErrConflict, now.Name)
	}
	if err := p.records.Damage(k.Record.Name); err != nil {
		return fmt.Errorf("%w: the record of volume %s may be of this one: %w", ErrConflict, k.Record.Name, err)
	}
	if err := p.stillKept(c, k); err != nil {
		return err
	}
	return p.trash.Leave(c.Dir, k.ID)
}

// stillKept returns an ErrConflict if the record on the disk is not that of a kept volume any more: a
// person has moved or removed it.
func (p *Pool) stillKept(c *call, k Kept) error {
	switch r, err := trash.ReadWhole(c.Kept(), k.ID); {
	case err != nil:
		return fmt.Errorf("%w: the record kept/%s%s cannot be read: %w", ErrConflict, k.ID, record.Suffix, err)
	case !r.SameVolume(k.Record):
		return fmt.Errorf("%w: the record kept/%s%s is that of another volume", ErrConflict, k.ID, record.Suffix)
	}
	return nil
}

// unkeep removes the record of a kept volume whose directory was brought back (row K3). It does nothing
// for a volume that was not kept.
func (p *Pool) unkeep(c *call, id string) error {
	dir := c.Kept()
	if dir < 0 {
		return nil
	}
	if there, err := file.Exists(dir, id); there || err != nil {
		return err
	}
	if there, err := file.Exists(dir, id+record.Suffix); err != nil {
		return err
	} else if there {
		p.step("undelete.done")
		if err := file.Remove(dir, id+record.Suffix); err != nil {
			return err
		}
	}
	p.kept.Remove(id)
	return nil
}
