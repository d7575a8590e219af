package volume

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
)

// recover reads the records and finishes what a crash interrupted; it is the
// table of docs/on-disk-format.md in code. What cannot be finished now is noted
// and left for the next call that names the volume.
func (p *Pool) recover(h *handle, notes []string) error {
	if err := p.sweep(h.Private, pooldir.PrivateName, h.Base); err != nil {
		return err
	}
	if err := p.sweep(h.Records, pooldir.RecordsName, h.Private); err != nil {
		return err
	}
	if err := p.load(h, notes); err != nil {
		return err
	}
	for _, r := range p.records.Unfinished() {
		h.call.Progress()
		if err := p.settle(h, r.Name); err != nil {
			if err = h.Explain(err); errors.Is(err, ErrNotReady) || errors.Is(err, unix.EIO) {
				return err
			}
			p.note(fmt.Sprintf("%s%s: %v", stillOf(r.Name), r.State, err))
		}
	}
	left, err := p.clearStaging(h)
	if err != nil {
		return err
	}
	for name, err := range left {
		p.note(fmt.Sprintf("staging/%s is not ours: %v", name, err))
	}
	p.matchQuotas(h)
	// Last: what was removed above may have left a quota.
	if err := h.quotas.ClearQuotas(); err != nil {
		p.note(fmt.Sprintf("quotas that nothing has are left: %v", err))
	}
	return nil
}

// matchQuotas brings the quotas in force to what the records say. A quota that is not
// as recorded and cannot be set is noted; the volume stays usable.
func (p *Pool) matchQuotas(h *handle) {
	if h.quotas.Support.Method == quota.MethodNone {
		n := len(p.records.Sorted(func(r Record) bool { return r.InPlace() && r.QuotaID != 0 }))
		if n > 0 {
			p.note(fmt.Sprintf("%d volumes were made with a quota, and now have none: %s", n, h.quotas.Support.Reason))
		}
		return
	}
	for _, r := range p.records.InPlace() {
		h.call.Progress()
		if _, err := p.matchQuota(h, r); err != nil && !errors.Is(err, unix.ENOENT) {
			p.note(fmt.Sprintf("the quota of volume %s is not as recorded: %v", r.Name, err))
		}
	}
}

// matchQuota brings the quota of a volume to what its record says, and returns the
// record, with the quota's ID.
func (p *Pool) matchQuota(h *handle, r Record) (Record, error) {
	id, err := h.quotas.Match(r)
	if id != r.QuotaID {
		r.QuotaID = id
		err = errors.Join(err, p.put(h, r))
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

// Settle finishes or undoes what neither the last start nor the call that began
// it could, because the disk was full or failed for a moment, and which nobody
// may ever name again: what has a record, and what is left in staging. It waits
// for calls under way, and does nothing where nothing is half done.
//
// The joined errors say which volumes are as they were, and why; ErrInUse is
// among them where a deletion waits for a mount to go.
func (p *Pool) Settle() error {
	err := p.visit("settle pool", func(h *handle) error {
		var errs []error
		for _, r := range p.records.Unfinished() {
			h.call.Progress()
			errs = append(errs, fault.Failed("settle volume", r.Name, p.settleLocked(h, r.Name)))
		}
		left, err := p.clearStaging(h)
		for name, err := range left {
			if !errors.Is(err, unix.ENOTEMPTY) { // somebody's: the start said so
				errs = append(errs, fault.Failed("clear "+pooldir.StagingName+" of", name, err))
			}
		}
		return errors.Join(append(errs, err)...)
	})
	return fault.Failed("settle pool", p.path, err)
}

func (p *Pool) settleLocked(h *handle, name string) error {
	unlock, err := p.names.Lock(h.call, name)
	if err != nil {
		return err
	}
	defer unlock()
	return p.settleNoted(h, name)
}

// settleNoted takes back the note where settle succeeds.
func (p *Pool) settleNoted(h *handle, name string) error {
	err := p.settle(h, name)
	if err == nil {
		p.unnote(stillOf(name))
	}
	return err
}

// stillOf begins what is noted of a volume that could not be settled.
func stillOf(name string) string { return fmt.Sprintf("volume %s is still ", name) }

// settle brings a volume that is half made or half gone to the state before or
// after. It does nothing for any other. The caller holds the volume's lock, or has
// the pool to itself.
func (p *Pool) settle(h *handle, name string) error {
	r, ok := p.records.Get(name)
	switch {
	case ok && r.State == Creating:
		return p.settleCreating(h, r)
	case ok && r.State == Deleting:
		return p.settleDeleting(h, r)
	}
	return nil
}

func (p *Pool) settleCreating(h *handle, r Record) error {
	staged, err := file.Exists(h.Staging, r.Name)
	if err != nil {
		return err
	}
	if staged {
		// The record goes first: without it nothing that somebody puts in
		// place meanwhile is taken for the volume.
		if err := p.drop(h, r.Name); err != nil {
			return err
		}
		return p.unstage(h, r.Name)
	}
	there, err := file.IsDir(h.Base, r.Name)
	if err != nil {
		return err
	}
	if !there {
		return p.dropGone(h, r.Name)
	}
	// The rename into place may not have been flushed before the crash.
	p.step("recover.place")
	if err := file.Flush(h.Base, h.Staging); err != nil {
		return err
	}
	// The filesystem may not have written the quota down. Should this fail, the
	// start says it of every volume alike.
	if id, err := h.quotas.Match(r); err == nil {
		r.QuotaID = id
	}
	p.step("recover.ready")
	r.State = Ready
	err = p.put(h, r)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		// Who was told of it finds it. A purge writes the record once there is space.
		p.records.SetLate(r)
		return nil
	}
	return err
}

// settleDeleting goes on with a deletion, unless something was mounted
// meanwhile.
func (p *Pool) settleDeleting(h *handle, r Record) error {
	there, err := file.IsDir(h.Base, r.Name)
	if err != nil {
		return err
	}
	if there {
		if err := h.CheckUnused(r.Name); err != nil {
			return err
		}
	}
	return p.finishDelete(h, r)
}

// clearStaging removes what nothing refers to any more, and returns what it
// could not, with the reason. Only empty directories are removed: we never put
// anything into one.
func (p *Pool) clearStaging(h *handle) (left map[string]error, err error) {
	names, err := file.List(h.Private, pooldir.StagingName)
	if err != nil {
		return nil, err
	}
	left = map[string]error{}
	for _, name := range names {
		h.call.Progress()
		if err := p.unstageLeft(h, name); err != nil {
			left[name] = err
		}
	}
	return left, nil
}

// unstageLeft leaves what is being made, and what settle still has to judge.
func (p *Pool) unstageLeft(h *handle, name string) error {
	unlock, err := p.names.Lock(h.call, name)
	if err != nil {
		return err
	}
	defer unlock()
	if r, ok := p.records.Get(name); ok && r.State == Creating {
		return nil
	}
	there, err := file.Exists(h.Staging, name)
	if !there || err != nil {
		return err
	}
	return p.unstage(h, name)
}

// unstage removes a volume that was never in place.
func (p *Pool) unstage(h *handle, name string) error {
	p.step("recover.staging")
	if err := file.RemoveDir(h.Staging, name); err != nil {
		return err
	}
	p.step("recover.sync")
	return file.Flush(h.Staging)
}
