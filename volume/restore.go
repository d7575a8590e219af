package volume

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Restore brings back a volume whose deletion was begun and not finished: ErrSetAside. It does
// nothing for a volume that is in place.
//
// The error is ErrNotFound if there is no volume, or if its deletion was decided, ErrConflict
// if something else has the place of its directory.
func (p *Pool) Restore(name string) error {
	return p.withAnyVolume("bring back volume", name, func(c *call) error {
		r, ok := p.records.Get(name)
		switch {
		case !ok || r.State == record.Deleting:
			return ErrNotFound
		case !r.Aside:
			return nil
		}
		if there, err := file.Exists(c.Base, name); err != nil {
			return err
		} else if there {
			return errOccupied
		}
		// The new name in the trash comes first: nothing may take the volume for one that is
		// being deleted once its directory is in place.
		r.Returning, r.Trash, r.Aside, r.Flushed = r.Trash, rand.Text(), false, false
		if err := p.putFirst(c, "restore.record", r); err != nil {
			return err
		}
		return p.bringBack(c, r)
	})
}

// SetAside returns the records of the volumes whose deletion was begun and not finished, by
// name. Their directories are in the trash under the name in the record. It reads no disk.
func (p *Pool) SetAside() []record.Record { return p.records.InTrash() }

// AsideAt returns the place of the directory of such a volume, relative to the pool. The error is
// ErrNotFound for any other volume.
func (p *Pool) AsideAt(name string) (string, error) {
	return resultOf(p.withName, "find the directory of volume", name, func(c *call) (string, error) {
		r, ok := p.records.Get(name)
		if !ok || !r.InTrash() {
			return "", ErrNotFound
		}
		id := cmp.Or(r.Returning, r.Trash)
		dir, _, err := inTrash(c, id)
		if dir == c.Kept() && dir >= 0 {
			return filepath.Join(pooldir.PrivateName, pooldir.KeptName, id), err
		}
		return filepath.Join(pooldir.PrivateName, pooldir.TrashName, id), err
	})
}

var errOccupied = fmt.Errorf("%w: something else has the place of its directory; move that away", ErrConflict)

// bringBack renames a directory back from the trash, or from the kept volumes, if that was not done
// before. The record has the name there.
func (p *Pool) bringBack(c *call, r record.Record) error {
	id := r.Returning
	from, entry, err := inTrash(c, id)
	if err != nil {
		return err
	}
	if entry {
		p.step("restore.rename")
		switch err := tree.Rename(from, id, c.Base, r.Name); {
		case err == unix.EEXIST:
			return errOccupied
		case err != nil:
			return fault.Path("rename", id, err)
		}
	}
	if from < 0 {
		from = c.Trash
	}
	p.step("restore.sync")
	if err := file.Flush(c.Base, from); err != nil {
		return err
	}
	r.Returning = ""
	p.step("restore.done")
	if err := p.put(c, r); err != nil {
		return err
	}
	return p.unkeep(c, id)
}

// recoverAside finishes the deletion of a volume that is set aside if it was decided, and
// marks a volume whose directory is not in the trash as in place. Otherwise it does nothing.
func (p *Pool) recoverAside(c *call, r record.Record) error {
	decided := false
	at, entry, err := inTrash(c, r.Trash)
	if err == nil && at >= 0 {
		decided, err = file.Exists(at, r.Trash+record.Suffix)
	}
	switch {
	case err != nil:
		return err
	case decided, entry && r.Unused():
		r.Aside = false
		return p.finishDelete(c, r)
	case !entry:
		p.records.SetAside(r.Name, false, false)
	}
	return nil
}
