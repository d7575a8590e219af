package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// stagedPrefix begins the names of copies in staging. No volume's name begins with a dot, so an entry
// with it is a copy of the agent, also if an older program has removed its record.
const stagedPrefix = ".clone-"

// stagedName returns the name in staging of a volume that is being created. A copy has a random one,
// which proves that the directory is that of the record.
func stagedName(r record.Record) string {
	if r.Source != nil {
		return stagedPrefix + r.Trash
	}
	return r.Name
}

// openStaged opens the staged directory of a record.
func openStaged(d *pooldir.Dir, r record.Record) (int, error) {
	dir, err := tree.OpenDir(d.Staging, stagedName(r))
	return dir, fault.Path("open", pooldir.StagingName+"/"+stagedName(r), err)
}

// copyClone copies the source into the staged directory, and flushes the copy.
func (p *Pool) copyClone(ctx context.Context, d *pooldir.Dir, j *cloneJob) error {
	turn := p.turnOf(j)
	if err := turn.take(ctx); err != nil {
		return err
	}
	defer turn.give()
	r, ok := p.records.Get(j.spec.Name)
	if !ok || r.Trash != j.id {
		return fmt.Errorf("%w: its record was removed meanwhile", ErrConflict)
	}
	j.into = d
	if j.snapshot {
		return p.copySnapshot(ctx, d, j, r)
	}
	dir, err := openStaged(d, r)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	p.step("clone.copy")
	copied, err := tree.Copy(ctx, j.source, ".", dir, p.copyOptions(j, turn))
	if err != nil {
		return j.explain(err)
	}
	if err := d.SetLabel(dir); err != nil {
		return err
	}
	j.mu.Lock()
	j.copied, j.leftOut = true, copied.LeftOut.String()
	j.mu.Unlock()
	p.step("clone.sync")
	if err := unix.Syncfs(dir); err != nil {
		return fault.Path("flush", "filesystem", err)
	}
	if j.uses, err = p.openQuotas.CheckUse(dir, r); err != nil {
		return err
	}
	return ctx.Err()
}

// copyOptions returns what the copy of a job may be.
func (p *Pool) copyOptions(j *cloneJob, turn *copyTurn) tree.CopyOptions {
	o := tree.CopyOptions{
		Share: !j.spec.CopyBytes || j.oneFile,
		Pace: func(ctx context.Context) error {
			p.step("clone.entry")
			j.mu.Lock()
			j.entries++
			j.mu.Unlock()
			return ctx.Err()
		},
		Wrote: func(ctx context.Context, bytes int64) error {
			j.mu.Lock()
			j.written += bytes
			written := j.written
			j.mu.Unlock()
			if p.openQuotas.Support.Method != quota.MethodBtrfs { // whose free space follows only with a commit
				p.ledger.SetStaged(j.spec.Name, written)
			}
			return turn.wrote(ctx, bytes)
		},
	}
	switch {
	case j.oneFile:
		o.Changes, o.Extents = tree.ChangesOfOneFile, tree.MaxExtents
	case !j.exclusive:
		o.Changes = tree.ChangesOfFiles
	}
	return o
}

// explain returns the error of a copy in the terms of Clone.
func (j *cloneJob) explain(err error) error {
	switch {
	case errors.Is(err, tree.ErrManyFiles), errors.Is(err, tree.ErrExtents):
		return inUse(j.spec, err.Error())
	case errors.Is(err, tree.ErrBusy):
		return fmt.Errorf("%w: %w: %w", ErrSource, ErrInUse, err)
	case errors.Is(err, tree.ErrUnshared) && j.oneFile:
		return inUse(j.spec, err.Error())
	case errors.Is(err, tree.ErrUnshared):
		return fmt.Errorf("%w: %w: permit to copy bytes", ErrUnshared, err)
	}
	return err
}

// abandonClone moves what a job that failed has staged to the trash. A clone that is in place all the
// same stays: the step after that failed.
func (p *Pool) abandonClone(op string, j *cloneJob) error {
	return p.withName(op, j.spec.Name, func(c *call) error {
		unlock, err := p.names.Lock(c.Call, j.spec.Name)
		if err != nil {
			return err
		}
		defer unlock()
		r, ok := p.records.Get(j.spec.Name)
		if !ok || r.Trash != j.id || r.State != record.Creating {
			return nil
		}
		return p.recoverCreating(c, r)
	})
}

// abandon moves a copy that is not in place, and its record, to the trash, unless that was done before.
// The record says first that it is being deleted: with the record gone first, a kill would leave a
// directory in staging that nothing explains.
func (p *Pool) abandon(c *call, r record.Record) error {
	if r.State != record.Deleting {
		p.step("clone.abandon")
		now := r
		now.State = record.Deleting
		err := p.put(c, now)
		// What fills the disk may be the copy itself. Without the write a start finds the record, and its
		// entry in the trash, and continues all the same.
		if err != nil && !fault.IsFull(err) {
			return err
		}
	}
	p.step("clone.trash")
	err := tree.Rename(c.Staging, stagedName(r), c.Trash, r.Trash)
	if err != nil && err != unix.ENOENT && err != unix.EEXIST {
		return fault.Path("rename", stagedName(r), err)
	}
	p.step("clone.trashed")
	if err := file.Flush(c.Staging, c.Trash); err != nil {
		return err
	}
	if err := p.moveRecord(c, r, c.Trash); err != nil {
		return err
	}
	p.records.Forget(r.Name)
	return nil
}

// clearCopy moves a copy in staging that no record names to the trash: an older program has removed its
// record. It does nothing for a copy that is being made or has to be recovered.
func (p *Pool) clearCopy(c *call, name string) error {
	id := strings.TrimPrefix(name, stagedPrefix)
	if p.clones.stages(id) || fault.CheckName(id) != nil {
		return nil
	}
	named := false
	p.records.Each(func(r record.Record) { named = named || r.Trash == id })
	if named {
		return nil
	}
	p.step("recover.staging")
	if err := file.RemoveDir(c.Staging, name); err == nil { // killed before the record
		p.step("recover.sync")
		return file.Flush(c.Staging)
	}
	p.step("recover.unlock")
	tree.Unlock(c.Staging, name) // killed before a snapshot was freed of what its source forbids
	p.step("recover.copy")
	if err := tree.Rename(c.Staging, name, c.Trash, id); err != nil && err != unix.ENOENT {
		return fault.Path("rename", name, err)
	}
	p.step("recover.sync")
	return file.Flush(c.Staging, c.Trash)
}
