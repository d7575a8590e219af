package volume

import (
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Delete removes the volume: its name is free and its promise returned at
// once, its data goes with the next Purge. A volume that is already gone is a
// success, so callers may retry.
//
// The error is ErrInUse while anything is mounted on, in or from the volume,
// ErrMigrating while its PV is being replaced, and ErrConflict where something
// without a record, or a file or a link instead of the directory, has the name;
// then nothing is removed.
func (p *Pool) Delete(name string) error {
	return p.DeleteIf(name, func(Record) error { return nil })
}

// DeleteIf is Delete for a caller whose reasons lie in the record: may sees the
// record while nobody else works on the volume, and what it returns ends the
// call with nothing removed. may must not call the pool, and is waited for.
func (p *Pool) DeleteIf(name string, may func(Record) error) error {
	return p.on("delete volume", name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok {
			return absent(c, name)
		}
		if err := r.Held(); err != nil {
			return err
		}
		if err := c.Callback(func() error { return may(r) }); err != nil {
			return err
		}
		return p.delete(c, r)
	})
}

// delete removes a volume that is in place, or whose directory is missing. The
// directory's rename into the trash is all that says so on the disk: its name there
// is in the record since the volume was made.
func (p *Pool) delete(c *call, r Record) error {
	if err := c.CheckUnused(r.Name); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if r.Trash == "" {
		r.Trash = rand.Text()
		p.step("delete.record")
		if err := p.put(c, r); err != nil {
			return err
		}
	}
	before := r
	r.State = Deleting
	p.records.SetLate(r) // or a purge would take its entry for one without a record
	if err := p.finishDelete(c, r); err != nil {
		p.rollBackDelete(c, before)
		return err
	}
	return nil
}

// absent is the answer for a volume without a record: fine if nothing has the
// name.
func absent(c *call, name string) error {
	there, err := file.Exists(c.Base, name)
	if there || err != nil {
		return taken(err)
	}
	return nil
}

// restore takes back a deletion of which nothing is on the disk. Where the
// directory moved, the next call, purge or start goes on with it.
func (p *Pool) rollBackDelete(c *call, r Record) {
	if _, ok := p.records.Get(r.Name); !ok {
		return
	}
	if moved, err := file.Exists(c.Trash, r.Trash); !moved && err == nil {
		p.records.SetLate(r)
	}
}

// finishDelete moves a volume whose record is deleting into the trash, and
// its record beside it. Each step is left out where it was done before. The last
// one is flushed by whoever empties the trash: until then a start would go on here,
// and the entry tells it that what has the name by then is somebody else's.
func (p *Pool) finishDelete(c *call, r Record) error {
	there, err := file.IsDir(c.Base, r.Name)
	if err != nil {
		return err
	}
	// One that is in the trash already was moved before the crash; what has
	// the name now is somebody else's.
	trashed, err := file.Exists(c.Trash, r.Trash)
	if err != nil {
		return err
	}
	if there && !trashed {
		p.step("delete.rename")
		if err := p.trash.Move(c.Dir, r.Name, r.Trash); err != nil {
			return err
		}
	}
	p.step("delete.sync")
	if err := file.Flush(c.Base, c.Trash); err != nil {
		return err
	}
	p.step("delete.move")
	if err := unix.Renameat(c.Records, r.Name, c.Trash, r.Trash+record.Suffix); err != nil && err != unix.ENOENT {
		return fault.Path("rename", r.Name, err)
	}
	p.records.Forget(r.Name)
	if there || trashed {
		return nil
	}
	// No entry tells it where the directory was missing.
	p.step("delete.flush")
	return file.Flush(c.Records, c.Trash)
}

// Undo unmakes a volume that Create made and nobody used, by a plain rmdir.
// It does nothing where there is none.
//
// The error is ErrNotEmpty where somebody wrote into it: the volume is then
// ready as before, for a person to judge. A bound volume is an ErrConflict.
func (p *Pool) RollBack(name string) error {
	return p.on("roll back volume", name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok {
			return absent(c, name)
		}
		if r.State == Bound {
			return fmt.Errorf("%w: PV %s uses it", ErrConflict, r.PV)
		}
		if err := c.CheckUnused(name); errors.Is(err, ErrNotFound) {
			return p.drop(c, name)
		} else if err != nil {
			return err
		}
		return p.rollBack(c, r)
	})
}

// undo unmakes a ready volume whose directory is there.
func (p *Pool) rollBack(c *call, ready Record) error {
	r := ready
	r.State = Creating
	p.step("rollback.record")
	if err := p.put(c, r); err != nil {
		return err
	}
	p.step("rollback.rmdir")
	if err := file.RemoveDir(c.Base, r.Name); err != nil {
		p.step("rollback.restore")
		// Should this fail too, the next call mends it: the directory is in
		// place, so the volume is ready.
		_ = p.put(c, ready)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			return ErrNotEmpty
		}
		return err
	}
	return p.dropGone(c, r.Name)
}
