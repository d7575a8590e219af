package volume

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// recoverAll reads the records and recovers every volume that a crash left unfinished, by
// the table of docs/on-disk-format.md. It notes a volume that cannot be recovered now, and
// leaves it to the next call for it.
func (p *Pool) recoverAll(c *call, notes []string) error {
	if err := p.sweep(c.Private, pooldir.PrivateName, c.Base); err != nil {
		return err
	}
	if err := p.sweep(c.Records, pooldir.RecordsName, c.Private); err != nil {
		return err
	}
	// A process that was killed may have moved a volume, or its record, and flushed nothing.
	// Delete for that volume does less from now on, or nothing, so no call would flush it.
	p.step("recover.flush")
	flush := []int{c.Base, c.Records, c.Trash}
	if kept := c.Kept(); kept >= 0 {
		flush = append(flush, kept)
	}
	if err := file.Flush(flush...); err != nil {
		return err
	}
	if err := p.load(c, notes); err != nil {
		return err
	}
	p.readShared(c)
	for _, r := range p.records.InTrash() {
		if r.Aside { // flushed above: the calls that finish these deletions flush nothing
			p.records.SetAside(r.Name, true, true)
		}
	}
	for _, r := range p.records.Unfinished() {
		c.Progress()
		if err := p.recover(c, r.Name); err != nil {
			if err = c.Explain(err); errors.Is(err, ErrNotReady) || errors.Is(err, unix.EIO) {
				return err
			}
			p.note(fmt.Sprintf("%s%s: %v", stillOf(r.Name), r.State, err))
		}
	}
	if err := p.recoverKept(c); err != nil {
		return err
	}
	left, err := p.clearStaging(c)
	if err != nil {
		return err
	}
	for name, err := range left {
		p.note(fmt.Sprintf("staging/%s is not of this agent: %v", name, err))
	}
	p.matchQuotas(c)
	// Last: what was removed above may have left a quota.
	if err := c.quotas.ClearQuotas(); err != nil {
		p.note(fmt.Sprintf("quotas that nothing has are left: %v", err))
	}
	return nil
}

// matchQuotas sets the quotas that are not in force as the records have them. It notes a
// quota that cannot be set; the volume stays usable.
func (p *Pool) matchQuotas(c *call) {
	if c.quotas.Support.Method == quota.MethodNone {
		n := len(p.records.Sorted(func(r record.Record) bool { return r.InPlace() && r.QuotaID != 0 }))
		if n > 0 {
			p.note(fmt.Sprintf("%d volumes were made with a quota, and now have none: %s", n, c.quotas.Support.Reason))
		}
		return
	}
	for _, r := range p.records.InPlace() {
		c.Progress()
		if _, err := p.matchQuota(c, r); err != nil && !errors.Is(err, unix.ENOENT) {
			p.note(fmt.Sprintf("the quota of volume %s is not as recorded: %v", r.Name, err))
		}
	}
	for _, name := range p.quotas.Loose() {
		r, ok := p.records.Get(name)
		if ok && !c.quotas.IsLoose(r) {
			p.note(fmt.Sprintf("the quota of volume %s is not as recorded: more is in use; it is lowered as the use falls", name))
		}
	}
}

// matchQuota sets the quota of a volume if it is not in force as recorded, and returns the
// record, with the quota's ID.
func (p *Pool) matchQuota(c *call, r record.Record) (record.Record, error) {
	id, err := c.quotas.Match(r)
	if id != r.QuotaID {
		r.QuotaID = id
		err = errors.Join(err, p.put(c, r))
	}
	return r, err
}

// sweep removes temporary files that were never renamed into place.
func (p *Pool) sweep(dir int, name string, parent int) error {
	names, err := file.List(parent, name)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !file.IsTemporary(name) {
			continue
		}
		p.step("recover.temp")
		if err := file.Remove(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// Recover finishes or rolls back what neither the last start nor the call that began it
// could, because the disk was full or failed for a moment: volumes with a record, and
// directories in staging. No other call may ever name them. It waits for calls under way, leaves
// the jobs of Clone alone, and does nothing if nothing is unfinished.
//
// The joined errors have the volumes that are as before, and the reasons; ErrInUse is among
// them if a deletion waits for an unmount.
func (p *Pool) Recover() error {
	p.clones.forget()
	return p.withPoolInSteps("recover pool", p.path, func(c *call) error {
		var errs []error
		for _, r := range p.records.Unfinished() {
			c.Progress()
			errs = append(errs, fault.Failed("recover volume", r.Name, p.recoverLocked(c, r.Name)))
		}
		left, err := p.clearStaging(c)
		for name, err := range left {
			if !errors.Is(err, unix.ENOTEMPTY) { // not of this agent: Open noted it
				errs = append(errs, fault.Failed("clear "+pooldir.StagingName+" of", name, err))
			}
		}
		return errors.Join(append(errs, err)...)
	})
}

func (p *Pool) recoverLocked(c *call, name string) error {
	unlock, err := p.names.Lock(c.Call, name)
	if err != nil {
		return err
	}
	defer unlock()
	return p.recoverNoted(c, name)
}

// recoverNoted removes the note about a volume if it recovers the volume.
func (p *Pool) recoverNoted(c *call, name string) error {
	err := p.recover(c, name)
	if err == nil {
		p.unnote(stillOf(name))
	}
	return err
}

// stillOf begins the note about a volume that could not be recovered.
func stillOf(name string) string { return fmt.Sprintf("volume %s is still ", name) }

// recover brings a volume that is half created or half deleted to the state before or after. It
// does nothing for any other. The caller holds the volume's lock, or is the only call on the pool.
func (p *Pool) recover(c *call, name string) error {
	r, ok := p.records.Get(name)
	switch {
	case p.clones.running(name) != nil: // its job finishes it, or gives it up
		return nil
	case ok && r.Returning != "":
		return p.bringBack(c, r)
	case ok && r.Aside:
		return p.recoverAside(c, r)
	case ok && r.State == record.Creating:
		return p.recoverCreating(c, r)
	case ok && r.State == record.Deleting:
		return p.recoverDeleting(c, r)
	}
	return nil
}

func (p *Pool) recoverCreating(c *call, r record.Record) error {
	staged, err := file.Exists(c.Staging, stagedName(r))
	if err != nil {
		return err
	}
	if staged && r.Source != nil {
		return p.abandon(c, r)
	}
	if staged {
		// The record goes first: a directory that another process creates meanwhile
		// under the name would count as the volume.
		if err := p.drop(c, r.Name); err != nil {
			return err
		}
		return p.unstage(c, r.Name)
	}
	there, err := file.IsDir(c.Base, r.Name)
	if err != nil {
		return err
	}
	if !there {
		return p.dropGone(c, r.Name)
	}
	// The rename into place may not have been flushed before the crash.
	p.step("recover.place")
	if err := file.Flush(c.Base, c.Staging); err != nil {
		return err
	}
	// The filesystem may not have written the quota. An error is not returned, because
	// recoverAll notes it for every volume.
	if id, err := c.quotas.Match(r); err == nil {
		r.QuotaID = id
	}
	p.step("recover.ready")
	r.State = record.Ready
	err = p.put(c, r)
	if fault.IsFull(err) {
		// The claim may have the volume already. A purge writes the record once there is space.
		p.records.Defer(r)
		return nil
	}
	return err
}

// recoverDeleting continues a deletion, unless something was mounted on the volume meanwhile.
func (p *Pool) recoverDeleting(c *call, r record.Record) error {
	to, _, err := inTrash(c, r.Trash)
	if err != nil {
		return err
	}
	if to < 0 && r.Source != nil { // it was in staging: a directory of its name is another one
		return p.abandon(c, r)
	}
	if to < 0 {
		if err := c.CheckUnused(r.Name); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return p.finishDelete(c, r)
}

// clearStaging removes the directories in staging that no record names, and returns those that it
// could not remove, with the reason. It removes empty ones only: staging has no files of the agent.
func (p *Pool) clearStaging(c *call) (left map[string]error, err error) {
	names, err := file.List(c.Private, pooldir.StagingName)
	if err != nil {
		return nil, err
	}
	left = map[string]error{}
	for _, name := range names {
		c.Progress()
		if err := p.unstageLeft(c, name); err != nil {
			left[name] = err
		}
	}
	return left, nil
}

// unstageLeft does nothing for a volume that is being created or has to be recovered.
func (p *Pool) unstageLeft(c *call, name string) error {
	if strings.HasPrefix(name, stagedPrefix) {
		return p.clearCopy(c, name)
	}
	unlock, err := p.names.Lock(c.Call, name)
	if err != nil {
		return err
	}
	defer unlock()
	if r, ok := p.records.Get(name); ok && r.State == record.Creating {
		return nil
	}
	there, err := file.Exists(c.Staging, name)
	if !there || err != nil {
		return err
	}
	return p.unstage(c, name)
}

// unstage removes the directory of a volume that was never in place.
func (p *Pool) unstage(c *call, name string) error {
	p.step("recover.staging")
	if err := file.RemoveDir(c.Staging, name); err != nil {
		return err
	}
	p.step("recover.sync")
	return file.Flush(c.Staging)
}
