package volumequota

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Dir sets and reads the quotas of the volumes in an open pool directory.
type Dir struct {
	Support quota.Support // what this process can use

	quotas   *Quotas
	dir      *pooldir.Dir
	enforcer quota.Enforcer
	block    int64 // of the filesystem, in bytes: quotas are rounded up to it
	// subvolumes is set on a btrfs where this process may make and remove subvolumes: each new volume is one.
	subvolumes bool
}

// wanted returns the quota of a volume as far as the filesystem enforces it. ok is
// false if the volume gets none.
func (d *Dir) wanted(r record.Record) (want quota.Limit, ok bool) {
	more, _ := d.extra(r)
	want.Bytes = r.Bytes + more
	if d.Support.Inodes {
		want.Inodes = r.Inodes
	}
	without := r.Quota == record.QuotaNone || r.Adopted && r.QuotaID == 0
	return want, !without && d.Support.Method != quota.MethodNone
}

// sharedRoom is what a volume on XFS may use beyond its size while it may share blocks with another one: to
// write over such a block, XFS takes the new one before it lets go of the old one, and some of its map.
const sharedRoom = 4 << 20

// Loosens reports whether the quota of a volume may be larger than its size.
func (d *Dir) Loosens() bool {
	return d.Support.Method == quota.MethodBtrfs || d.Support.Method == quota.MethodXFS
}

// extra returns how much larger than its size the quota of a volume is. sure is false if it may have to be
// larger, because copies may not be known yet.
//
// btrfs counts a block for the subvolume that wrote it for as long as any file has it. So the source of a
// copy can be full of blocks that it has overwritten, and gets as much more as its copies may have of it.
// On XFS source and copy get sharedRoom.
func (d *Dir) extra(r record.Record) (bytes int64, sure bool) {
	if !d.Loosens() || d.quotas.config.Copied == nil {
		return 0, true
	}
	copied, sure := d.quotas.config.Copied(r)
	switch {
	case d.Support.Method == quota.MethodBtrfs:
		return copied, sure
	case copied > 0 || r.Source != nil && d.quotas.config.CopyShares(r):
		return sharedRoom, true
	}
	return 0, sure
}

// IsLoose reports whether the quota of a volume has to be larger than its size.
func (d *Dir) IsLoose(r record.Record) bool {
	more, sure := d.extra(r)
	return more > 0 || !sure
}

// Set puts the quota of a volume in force and returns its ID, 0 if it gets none. Quotas
// may have been turned off since the pool was opened.
func (d *Dir) Set(dir int, r record.Record) (id uint64, err error) {
	want, ok := d.wanted(r)
	if !ok {
		return 0, nil
	}
	return d.set(dir, r, want)
}

func (d *Dir) set(dir int, r record.Record, want quota.Limit) (id uint64, err error) {
	id, err = d.enforcer.Set(dir, r.QuotaID, want)
	return isSet(r, id, err)
}

// isSet returns what a call of the enforcer returned, in the terms of Set.
func isSet(r record.Record, id uint64, err error) (uint64, error) {
	switch {
	case err == nil:
		return id, nil
	case !errors.Is(err, quota.ErrNone):
		return 0, fmt.Errorf("set the quota: %w", err)
	case r.Quota == record.QuotaRequired:
		return 0, fmt.Errorf("%w: %w", fault.ErrNoQuotas, err)
	}
	return 0, nil
}

// MakeStaged makes the directory of a new volume in staging, under that name there, of the kind that
// its quota needs; on btrfs a subvolume.
func (d *Dir) MakeStaged(name string, r record.Record) error {
	if _, ok := d.wanted(r); ok || d.subvolumes {
		return d.enforcer.Make(d.dir.Staging, name)
	}
	return unix.Mkdirat(d.dir.Staging, name, 0o700)
}

// MakesSubvolume reports whether MakeStaged makes a btrfs subvolume. The flush after a rename of
// one commits the whole filesystem (btrfs_rename in fs/btrfs/inode.c).
func (d *Dir) MakesSubvolume() bool { return d.subvolumes }

// CheckUse returns an ErrNoSpace if an open directory has more than its quota: some filesystems let a
// process with privileges write past it. used is what the kernel counts; 0 if it counts nothing.
func (d *Dir) CheckUse(dir int, r record.Record) (used int64, err error) {
	if r.QuotaID == 0 {
		return 0, nil
	}
	u, err := d.enforcer.Usage(dir, r.QuotaID)
	if err != nil {
		return 0, fmt.Errorf("read the usage: %w", err)
	}
	if u.Bytes > u.Limit.Bytes || u.Limit.Inodes > 0 && u.Inodes > u.Limit.Inodes {
		return u.Bytes, fmt.Errorf("%w: it has %d bytes and %d inodes, and its quota is %d bytes and %d inodes: request more",
			fault.ErrNoSpace, u.Bytes, u.Inodes, u.Limit.Bytes, u.Limit.Inodes)
	}
	return u.Bytes, nil
}

// Enforced reports whether the kernel enforces the volume's quota of bytes. not describes the part
// of its quota that the kernel does not enforce; "" if it enforces all of it.
func (d *Dir) Enforced(r record.Record) (bytes bool, not string) {
	lost := d.quotas.Lost(r.Name)
	switch {
	case lost != "":
		not = lost
	case r.Adopted && r.QuotaID == 0:
		not = "its directory was there before, and its data is not counted"
	case r.Quota == record.QuotaNone:
		not = "no quota is requested"
	case d.Support.Method == quota.MethodNone:
		not = d.Support.Reason
	case r.QuotaID == 0:
		not = "it has none: it was created while the filesystem enforced no quotas, or has lost it"
	case r.Inodes > 0 && !d.Support.Inodes:
		not = fmt.Sprintf("%s does not count inodes; the quota is on bytes alone", d.Support.Method)
	}
	return r.QuotaID != 0 && d.Support.Method != quota.MethodNone && lost == "", not
}

// Usage returns what the kernel counts for a volume. Errors are those of quota.Enforcer.
func (d *Dir) Usage(r record.Record) (quota.Usage, error) {
	return Usage(d.enforcer, d.dir.Base, r)
}

// Usage returns what the kernel counts for the volume of a record in the directory base. If
// the record has no ID, the error is quota.ErrUnlimited, even if the directory has one.
func Usage(enforcer quota.Enforcer, base int, r record.Record) (quota.Usage, error) {
	if r.QuotaID == 0 {
		return quota.Usage{}, quota.ErrUnlimited
	}
	dir, err := tree.OpenDir(base, r.Name)
	if err != nil {
		return quota.Usage{}, fault.Path("open", r.Name, err)
	}
	defer unix.Close(dir)
	return enforcer.Usage(dir, r.QuotaID)
}

// Files returns the bytes of the blocks that the files of a volume have. Files that share blocks, as those of a snapshot in the
// volume, each count theirs. The pace is called for each file; its error ends the walk.
func Files(ctx context.Context, base int, name string, pace func(context.Context) error) (int64, error) {
	size, err := tree.Measure(ctx, base, name, pace, nil)
	return size.Bytes, err
}

// Meter is Usage for the accounting of space. It also checks that the directory has its recorded
// ID. If it has another, Meter still returns what the kernel counts for the recorded one.
func (d *Dir) Meter(r record.Record) (u quota.Usage, err error) {
	u, err = d.Usage(r)
	var lost error
	switch {
	case d.shared(r.QuotaID):
		u, err, lost = quota.Usage{}, nil, errShared // the count may be of the other volume
	case errors.Is(err, quota.ErrForeign):
		err, lost = nil, err
	case errors.Is(err, quota.ErrUnlimited):
		lost = err
	}
	d.quotas.setLostOf(r, lost)
	return u, err
}

// shared reports whether the records do not show to which directory an ID belongs. On btrfs it
// belongs to the subvolume with that ID, whatever is recorded: a record may name a subvolume that is
// gone, or one of the filesystem from which the pool was copied.
func (d *Dir) shared(id uint64) bool {
	return d.recorded(id) > 1 && d.Support.Method != quota.MethodBtrfs
}

func (d *Dir) recorded(id uint64) int { return d.quotas.config.Recorded(d.dir.Filesystem, id) }

// CountedElsewhere returns a function that reports whether the kernel counts an open file for a
// recorded volume, because it has that volume's quota ID; nil if files have no such IDs.
func (d *Dir) CountedElsewhere() func(fd int) bool {
	if m := d.Support.Method; m != quota.MethodXFS && m != quota.MethodExt4 {
		return nil
	}
	return func(fd int) bool {
		a, err := quota.GetAttr(fd)
		return err != nil || a.Project != 0 && d.recorded(uint64(a.Project)) > 0
	}
}

// RemoveWhole removes a trash entry in one step if the filesystem can do that: its
// kernel then frees the space in the background.
func (d *Dir) RemoveWhole(id string) (removed bool, err error) {
	if !d.subvolumes {
		return false, nil
	}
	return d.enforcer.Remove(d.dir.Trash, id)
}

// ClearQuotas removes quotas whose directory is gone.
func (d *Dir) ClearQuotas() error {
	if d.Support.Method == quota.MethodNone {
		return nil
	}
	_, err := d.enforcer.Sweep(d.dir.Base)
	return err
}
