package volume

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Delete deletes the volume: its name and its allocation are free at once, and the next
// Purge removes its data, unless the data is kept for Undelete. It does nothing if the volume is gone,
// so callers may retry.
//
// With an ErrNotReady the directory may be in the trash. The deletion goes no further then:
// the volume is set aside until Delete is called again, or Restore.
//
// The error is ErrInUse while anything is mounted on, in or from the volume, ErrMigrating
// while its PV is being replaced, and ErrConflict if a directory without a record, or a file
// or a link, has the name. With any error all data is kept.
//
// Delete ends a copy by Clone that is under way: the error is ErrCloning until that has ended. While a
// clone of the volume is made, the error is ErrInUse.
func (p *Pool) Delete(name string) error {
	p.EndClone(name)
	return p.DeleteIf(name, func(Volume) error { return nil })
}

// DeleteIf is Delete for a caller that decides by the volume: may gets it while no other call works
// on it, with its record and whether its directory is missing, and an error of may is returned with
// nothing removed. may must not call the pool. DeleteIf waits for may without a bound.
func (p *Pool) DeleteIf(name string, may func(Volume) error) error {
	return p.withAnyVolume("delete volume", name, func(c *call) error {
		r, err := p.deletable(c, name, may)
		if err != nil || r.Name == "" {
			return err
		}
		return p.delete(c, r)
	})
}

// MayDelete returns the error with which DeleteIf would refuse now, and deletes nothing.
func (p *Pool) MayDelete(name string, may func(Volume) error) error {
	return p.withAnyVolume("delete volume", name, func(c *call) error {
		r, err := p.deletable(c, name, may)
		if err != nil || r.Name == "" {
			return err
		}
		return unused(c, r)
	})
}

// deletable returns the record of a volume that may be deleted, the zero Record if the volume is gone.
func (p *Pool) deletable(c *call, name string, may func(Volume) error) (record.Record, error) {
	r, ok := p.records.Get(name)
	if !ok {
		return record.Record{}, absent(c, name)
	}
	if err := r.Migrating(); err != nil {
		return r, err
	}
	if err := p.clones.unread(name); err != nil {
		return r, err
	}
	v, err := p.found(c, r)
	if err != nil {
		return r, err
	}
	if err := c.Callback(func() error { return may(v) }); err != nil {
		return r, err
	}
	return r, nil
}

// unused returns an error while a volume is used, nil if its directory is not in place.
func unused(c *call, r record.Record) error {
	if r.Aside {
		return nil
	}
	if err := c.CheckUnused(r.Name); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// delete deletes a volume that is in place, set aside, or whose directory is missing. On the
// disk only the directory's rename into the trash shows the deletion: its name there is in
// the record since the volume was created.
func (p *Pool) delete(c *call, r record.Record) error {
	if err := unused(c, r); err != nil {
		return err
	}
	if err := c.StillWanted(); err != nil {
		return err
	}
	if r.Trash == "" {
		r.Trash = rand.Text()
		p.step("delete.record")
		if err := p.put(c, r); err != nil {
			return err
		}
	}
	// Its bytes stay allocated until the record is gone: the deletion can stop at any step,
	// and the volume keeps them.
	p.records.SetAside(r.Name, true, r.Flushed) // or a purge would remove its entry as one without a record
	r.Aside = true
	err := p.finishDelete(c, r)
	if err != nil {
		p.rollBackDelete(c, r)
	}
	return err
}

// rollBackDelete marks the volume of a deletion that did not move the directory as in place.
// If the directory moved, the volume stays set aside.
func (p *Pool) rollBackDelete(c *call, r record.Record) {
	if moved, _, err := inTrash(c, r.Trash); moved < 0 && err == nil {
		p.records.SetAside(r.Name, false, false)
	}
}

// finishDelete moves a volume into the trash, or to the kept volumes, and its record beside it. It
// omits the steps that were done before. The second step decides: before it the volume is set aside,
// and nothing but a caller that still waits does it, except for a volume that is of no use to
// anyone. A purge flushes it: until then a start finds the volume set aside, and the entry, or
// the record beside it, shows that a directory of that name is another one.
func (p *Pool) finishDelete(c *call, r record.Record) error {
	to, _, err := inTrash(c, r.Trash)
	if err != nil {
		return err
	}
	there, err := file.IsDir(c.Base, r.Name)
	if err != nil {
		return err
	}
	trashed := to >= 0
	decided := !r.Aside || r.Unused() // no caller has to wait for it
	if !trashed {
		to = c.Trash
	}
	if there && !trashed {
		if err := c.StillWanted(); err != nil && !decided {
			return err
		}
		if to, err = p.destination(c, r); err != nil {
			return err
		}
		p.step("delete.rename")
		if err := p.trash.Move(c.Dir, r.Name, to, r.Trash); err != nil {
			return err
		}
	}
	if !r.Flushed { // a slow disk flushes once, also if the caller has left meanwhile
		p.step("delete.sync")
		if err := file.Flush(c.Base, to); err != nil {
			return err
		}
		if r.Aside {
			p.records.SetAside(r.Name, true, there || trashed)
		}
	}
	if err := c.StillWanted(); err != nil && !decided {
		return err
	}
	if err := p.moveRecord(c, r, to); err != nil {
		return err
	}
	if to == c.Kept() {
		p.kept.Add(r)
	}
	p.records.Forget(r.Name)
	if there || trashed {
		return nil
	}
	// If the directory was missing, there is no entry in the trash to show it.
	p.step("delete.flush")
	return file.Flush(c.Records, to)
}

// inTrash returns the directory to which a volume was moved, as entry id: the trash, or that of the
// kept volumes, or -1. Its entry is there, or was removed and has left its record: decided. A
// directory that has the volume's name now is another one.
func inTrash(c *call, id string) (dir int, entry bool, err error) {
	dirs := []int{c.Trash}
	if kept := c.Kept(); kept >= 0 {
		dirs = append(dirs, kept)
	}
	for _, name := range []string{id, id + record.Suffix} {
		for _, dir := range dirs {
			if there, err := file.Exists(dir, name); there || err != nil {
				return dir, name == id, err
			}
		}
	}
	return -1, false, nil
}

// moveRecord moves the record of a volume that is in the trash, or kept, beside its entry. It does
// nothing if the record was moved before.
//
// A power cut can leave both names of a record that was being moved: btrfs writes the two
// directories one after the other, and both names are links of one file then. rename(2) does
// nothing for two links of one file. The old name is therefore removed by itself.
func (p *Pool) moveRecord(c *call, r record.Record, to int) error {
	p.step("delete.move")
	if err := unix.Renameat(c.Records, r.Name, to, r.Trash+record.Suffix); err != nil && err != unix.ENOENT {
		return fault.Path("rename", r.Name, err)
	}
	left, err := record.Read(c.Records, r.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case left.Trash != r.Trash:
		return fmt.Errorf("%w: record %s is another volume's", ErrConflict, r.Name)
	}
	p.step("delete.unlink")
	return file.Remove(c.Records, r.Name)
}

// RollBack removes a volume that Create or Clone made and that has no PV, if there is one: an empty
// one by rmdir(2), and a copy, which has no user yet, as Delete does, but it is never kept. It
// ends a copy that is under way: the error is ErrCloning until that has ended.
//
// The error is ErrNotEmpty if the volume has files: it stays ready, and a person has to
// decide. The error is ErrConflict if a PV uses it.
func (p *Pool) RollBack(name string) error {
	p.EndClone(name)
	return p.withVolume("roll back volume", name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok {
			return absent(c, name)
		}
		if r.State == record.Bound {
			return fmt.Errorf("%w: PV %s uses it", ErrConflict, r.PV)
		}
		if err := p.clones.unread(name); err != nil {
			return err
		}
		if r.Source != nil {
			return p.delete(c, r)
		}
		if err := c.CheckUnused(name); errors.Is(err, ErrNotFound) {
			return p.drop(c, name)
		} else if err != nil {
			return err
		}
		return p.rollBack(c, r)
	})
}

// rollBack removes a ready volume whose directory is there.
func (p *Pool) rollBack(c *call, ready record.Record) error {
	r := ready
	r.State = record.Creating
	if err := p.putFirst(c, "rollback.record", r); err != nil {
		return err
	}
	p.step("rollback.rmdir")
	if err := file.RemoveDir(c.Base, r.Name); err != nil {
		p.step("rollback.restore")
		// If this fails too, the next call finds the directory in place, and the volume ready.
		_ = p.put(c, ready)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			return fault.ErrNotEmpty
		}
		return err
	}
	return p.dropGone(c, r.Name)
}
