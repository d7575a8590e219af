package volumequota

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Match sets the quota of a record if another is in force: a crash may have happened
// between the writes of the record and the quota, or before the filesystem committed the
// quota, or copies of the volume were made or deleted since. It does nothing for a volume that gets
// no quota, or was created without one.
//
// It returns the quota's ID. That is the recorded one if there is one, even if the
// directory has another or the quota cannot be set.
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
	}
	want := d.bearable(u, r)
	d.quotas.setLoose(r.Name, want.Bytes-d.block >= r.Bytes)
	if r.QuotaID != 0 && d.inForce(u, want) {
		return r.QuotaID, nil
	}
	id, err = d.set(dir, r, want)
	if errors.Is(err, quota.ErrUsed) && d.Loosens() {
		return r.QuotaID, nil // written meanwhile; the next Match lowers it
	}
	if r.QuotaID != 0 {
		id = r.QuotaID
	}
	return id, err
}

// inForce compares the quota in force with the wanted one, which is rounded up to whole blocks.
func (d *Dir) inForce(u quota.Usage, want quota.Limit) bool {
	return u.Limit.Inodes == want.Inodes && u.Limit.Bytes >= want.Bytes && u.Limit.Bytes-want.Bytes < d.block
}

// bearable returns the wanted quota of a volume or, where it may have been larger, what is in use of the
// quota in force: the volume may have blocks that only copies of it have had since. While it may have
// copies that are not known, no quota is lowered.
func (d *Dir) bearable(u quota.Usage, r record.Record) quota.Limit {
	want, _ := d.wanted(r)
	if !d.Loosens() || u.Limit.Bytes <= want.Bytes {
		return want
	}
	if _, sure := d.extra(r); !sure {
		want.Bytes = u.Limit.Bytes
	}
	want.Bytes = max(want.Bytes, min(u.Limit.Bytes, u.Bytes))
	return want
}

// errShared is an ErrConflict: the records do not show to which of two volumes an ID belongs.
var errShared = fmt.Errorf("%w: another volume is recorded with its ID, too", fault.ErrConflict)

// restore sets the recorded ID on the directory of a volume that has another one, and shows the
// administrator a note. It does nothing for a volume without a recorded ID. On error the directory
// is unchanged. The error is errShared if another volume is recorded with the same ID, and
// quota.ErrForeign if the directory cannot have it.
func (d *Dir) restore(dir int, r record.Record) (err error) {
	if r.QuotaID == 0 {
		return nil
	}
	defer func() {
		d.quotas.mu.Lock()
		defer d.quotas.mu.Unlock()
		d.quotas.setLost(r.Name, err)
	}()
	if d.shared(r.QuotaID) {
		return errShared
	}
	_, shown := d.enforcer.Usage(dir, r.QuotaID)
	if !errors.Is(shown, quota.ErrForeign) {
		return nil
	}
	by, ok := d.enforcer.(quota.Restorer)
	if !ok {
		return shown
	}
	if err := by.Restore(dir, r.QuotaID); err != nil {
		return errors.Join(shown, err)
	}
	d.quotas.config.Note(fmt.Sprintf("the directory of volume %s was not counted for the volume (%v), and is again; "+
		"only root, on the node or in a pod of the volume, can have changed that, and files made meanwhile may be counted "+
		"for another volume", r.Name, shown))
	return nil
}
