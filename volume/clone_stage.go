package volume

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// stageClone creates the staged directory with its label and quota, while it is empty, and the record. A
// snapshot replaces the directory, and gets both later.
func (p *Pool) stageClone(c *call, j *cloneJob, r record.Record) (err error) {
	if j.snapshot {
		p.step("clone.mkdir")
		err = unix.Mkdirat(c.Staging, stagedName(r), 0o700)
	} else {
		p.step("clone.mkdir")
		err = c.quotas.MakeStaged(stagedName(r), r)
	}
	if err != nil {
		return fault.Path("create", stagedName(r), err)
	}
	defer func() {
		if err != nil {
			p.unstageClone(c, r)
		}
	}()
	dir, err := openStaged(c.Dir, r)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if !j.snapshot {
		if err := c.SetLabel(dir); err != nil {
			return err
		}
		if r.QuotaID, err = c.quotas.Set(dir, r); err != nil {
			return err
		}
	}
	p.step("clone.record")
	if j.snapshot {
		// Making the snapshot commits all that was made before it (create_snapshot in fs/btrfs/ioctl.c), so that
		// it is never there without the two names. The content of the record is flushed here.
		return p.records.PutNew(c.Records, p.steps("record"), r)
	}
	return p.records.PutNew(c.Records, p.steps("record"), r, dir, c.Records)
}

// unstageClone rolls back stageClone. It returns no error: the next call for the volume, or the next start,
// recovers what it leaves.
func (p *Pool) unstageClone(c *call, r record.Record) {
	if p.drop(c, r.Name) == nil {
		_ = p.unstage(c, stagedName(r))
	}
}

// finishRecord writes to the record of a copy what was not known when the job began. It does nothing if
// there is nothing of that.
func (p *Pool) finishRecord(c *call, r *record.Record, j *cloneJob) error {
	r.LeftOut = j.show().LeftOut
	if j.quotaID == 0 && r.LeftOut == "" {
		return nil
	}
	if j.quotaID != 0 {
		r.QuotaID = j.quotaID
	}
	p.step("clone.quota")
	err := p.put(c, *r)
	if j.quotaID == 0 && fault.IsFull(err) {
		return nil // memory has it; a kill would lose an event, and not the copy
	}
	return err
}

// landClone renames the copy into place.
func (p *Pool) landClone(op string, j *cloneJob) (Volume, error) {
	return resultOf(p.withName, op, j.spec.Name, func(c *call) (Volume, error) {
		unlock, err := p.names.Lock(c.Call, j.spec.Name)
		if err != nil {
			return Volume{}, err
		}
		defer unlock()
		r, ok := p.records.Get(j.spec.Name)
		if !ok || r.Trash != j.id || r.State != record.Creating {
			return Volume{}, fmt.Errorf("%w: its record was removed meanwhile", ErrConflict)
		}
		// What is staged may be less than what was copied: another disk, or one without a snapshot that it
		// had not committed.
		if c.Dir != j.into {
			return Volume{}, fmt.Errorf("%w: the pool was opened again since the copy was made", ErrNotReady)
		}
		if err := j.ctx.Err(); err != nil {
			return Volume{}, err
		}
		if err := c.StillWanted(); err != nil {
			return Volume{}, err
		}
		if err := p.noteCopy(c, r, j); err != nil {
			return Volume{}, err
		}
		if err := p.finishRecord(c, &r, j); err != nil {
			return Volume{}, err
		}
		p.step("clone.rename")
		switch err := tree.Rename(c.Staging, stagedName(r), c.Base, r.Name); {
		case err == unix.EEXIST:
			return Volume{}, errTaken
		case err != nil:
			return Volume{}, fault.Path("rename", stagedName(r), err)
		}
		p.step("clone.flush")
		if err := file.Flush(c.Base, c.Staging); err != nil {
			return Volume{}, err
		}
		r.State = record.Ready
		p.records.Defer(r)
		p.ledger.ReadAgain()
		return p.volume(c, r, false), nil
	})
}
