package volume

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// matchLimits brings the limits in force to what the records say: a crash may
// have come between the two, or before the filesystem wrote a limit down. What
// is not as recorded and cannot be mended is noted; the volume stays usable.
func (p *Pool) matchLimits(h *handle) {
	if h.support.Method == quota.MethodNone {
		p.noteUnenforced(h)
		return
	}
	for _, r := range p.records.InPlace() {
		h.call.Progress()
		if _, err := p.matchedLimit(h, r); err != nil && !errors.Is(err, unix.ENOENT) {
			p.note(fmt.Sprintf("the limit of volume %s is not as recorded: %v", r.Name, err))
		}
	}
}

func (p *Pool) noteUnenforced(h *handle) {
	n := len(p.records.Sorted(func(r Record) bool { return r.InPlace() && r.QuotaID != 0 }))
	if n > 0 {
		p.note(fmt.Sprintf("%d volumes were made with a limit, and now have none: %s", n, h.support.Reason))
	}
}

// matchedLimit brings the limit of a volume to what its record says, and
// returns the record, with the limit's ID.
func (p *Pool) matchedLimit(h *handle, r Record) (Record, error) {
	id, err := p.matchLimit(h, r)
	if id != r.QuotaID {
		r.QuotaID = id
		err = errors.Join(err, p.put(h, r))
	}
	return r, err
}

// matchLimit does nothing for a volume that gets no limit, or was made without.
// It returns the limit's ID, which is the recorded one if there is one: whatever
// the directory shows, and whether or not the limit could be set, an ID that was
// given is not forgotten, and no other is taken in its place.
func (p *Pool) matchLimit(h *handle, r Record) (uint64, error) {
	if _, ok := h.wanted(r); !ok {
		return r.QuotaID, nil
	}
	dir, err := tree.OpenDir(h.Base, r.Name)
	if err != nil {
		return r.QuotaID, err
	}
	defer unix.Close(dir)
	if err := p.reclaim(h, dir, r); err != nil {
		return r.QuotaID, err
	}
	u, err := h.limits.Usage(dir, r.QuotaID)
	switch {
	case r.QuotaID == 0 && errors.Is(err, quota.ErrUnlimited):
		return 0, nil
	case err != nil && !errors.Is(err, quota.ErrUnlimited):
		return r.QuotaID, err
	case r.QuotaID != 0 && h.inForce(u, r):
		return r.QuotaID, nil
	}
	id, err := h.enforce(dir, r)
	if r.QuotaID != 0 {
		id = r.QuotaID
	}
	return id, err
}

// inForce compares a limit with what is recorded, which was rounded up to
// whole blocks.
func (h *handle) inForce(u quota.Usage, r Record) bool {
	want, _ := h.wanted(r)
	return u.Limit.Inodes == want.Inodes && u.Limit.Bytes >= want.Bytes && u.Limit.Bytes-want.Bytes < h.block
}

// errShared is an ErrConflict: to which of two volumes an ID belongs cannot be known.
var errShared = fmt.Errorf("%w: another volume is recorded with its ID, too", ErrConflict)

// reclaim gives the directory of a volume its recorded ID back if it shows another,
// and notes that. It does nothing for a volume without a recorded ID. With an error
// the directory is as before; it is errShared if another volume is recorded with
// the ID, too.
func (p *Pool) reclaim(h *handle, dir int, r Record) (err error) {
	if r.QuotaID == 0 {
		return nil
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.strayed(r.Name, err)
	}()
	if p.filesystems.Load().Recorded(p.ledger, h.Filesystem, r.QuotaID) > 1 {
		return errShared
	}
	_, stray := h.limits.Usage(dir, r.QuotaID)
	by, ok := h.limits.(quota.Restorer)
	if !ok || !errors.Is(stray, quota.ErrForeign) {
		return nil
	}
	if err := by.Restore(dir, r.QuotaID); err != nil {
		return errors.Join(stray, err)
	}
	p.note(fmt.Sprintf("the directory of volume %s was not counted for the volume (%v), and is again; only root, on the node "+
		"or in a pod of the volume, can have changed that, and files made meanwhile may be counted for another volume", r.Name, stray))
	return nil
}

// strayed remembers why a volume's directory does not show the ID of its record;
// nil is that it does. The caller holds mu.
func (p *Pool) strayed(name string, why error) {
	if why == nil {
		delete(p.strays, name)
		return
	}
	p.strays[name] = fmt.Sprintf("it is not held to its size, because its directory is not counted for it: %v; "+
		"the agent tries to mend that when it starts, and when the volume grows", why)
}

// strayedStill is strayed for a volume that may be gone by now.
func (p *Pool) strayedStill(r Record, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, ok := p.records.Get(r.Name); ok && now.Same(r) {
		p.strayed(r.Name, why)
	}
}

// stray returns why a volume is not held to the limit that it was given; "" if it
// is.
func (p *Pool) stray(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.strays[name]
}
