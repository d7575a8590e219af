package enforce

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Match sets the quota that a record asks for, if another is in force: a crash may have
// come between the record and the quota, or before the filesystem wrote the quota down.
// It does nothing for a volume that gets no quota, or was made without one.
//
// It returns the quota's ID, which is the recorded one if there is one: whatever the
// directory shows, and whether or not the quota could be set, a recorded ID is not
// replaced.
func (d *Dir) Match(r record.Record) (id uint64, err error) {
	if _, ok := d.wanted(r); !ok {
		return r.QuotaID, nil
	}
	dir, err := tree.OpenDir(d.dir.Base, r.Name)
	if err != nil {
		return r.QuotaID, err
	}
	defer unix.Close(dir)
	if err := d.restore(dir, r); err != nil {
		return r.QuotaID, err
	}
	u, err := d.enforcer.Usage(dir, r.QuotaID)
	switch {
	case r.QuotaID == 0 && errors.Is(err, quota.ErrUnlimited):
		return 0, nil
	case err != nil && !errors.Is(err, quota.ErrUnlimited):
		return r.QuotaID, err
	case r.QuotaID != 0 && d.inForce(u, r):
		return r.QuotaID, nil
	}
	id, err = d.Set(dir, r)
	if r.QuotaID != 0 {
		id = r.QuotaID
	}
	return id, err
}

// inForce compares the quota in force with the recorded one, which was rounded up to
// whole blocks.
func (d *Dir) inForce(u quota.Usage, r record.Record) bool {
	want, _ := d.wanted(r)
	return u.Limit.Inodes == want.Inodes && u.Limit.Bytes >= want.Bytes && u.Limit.Bytes-want.Bytes < d.block
}

// errShared is an ErrConflict: the records do not show to which of two volumes an ID
// belongs.
var errShared = fmt.Errorf("%w: another volume is recorded with its ID, too", fault.ErrConflict)

// restore gives the directory of a volume its recorded ID back if it shows another one,
// and notes that. It does nothing for a volume without a recorded ID. With an error
// the directory is as before; it is errShared if another volume is recorded with the
// ID, too.
func (d *Dir) restore(dir int, r record.Record) (err error) {
	if r.QuotaID == 0 {
		return nil
	}
	defer func() {
		d.quotas.mu.Lock()
		defer d.quotas.mu.Unlock()
		d.quotas.setLost(r.Name, err)
	}()
	if d.recorded(r.QuotaID) > 1 {
		return errShared
	}
	_, shown := d.enforcer.Usage(dir, r.QuotaID)
	by, ok := d.enforcer.(quota.Restorer)
	if !ok || !errors.Is(shown, quota.ErrForeign) {
		return nil
	}
	if err := by.Restore(dir, r.QuotaID); err != nil {
		return errors.Join(shown, err)
	}
	d.quotas.config.Note(fmt.Sprintf("the directory of volume %s was not counted for the volume (%v), and is again; only root, on the node "+
		"or in a pod of the volume, can have changed that, and files made meanwhile may be counted for another volume", r.Name, shown))
	return nil
}
