package volume

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/tree"
	"kubevirt.io/hostpath-provisioner/volume/volumequota"
)

// Create creates the volume, or returns it if it exists for the same claim with the same
// size, so callers may retry. The directory is empty, has the configured mode and label and,
// if the filesystem enforces one, the quota. Once Create returned, it survives a power cut.
//
// The error is one of these, and then Create leaves no new volume:
//
//   - ErrInvalid: the name, the size or the quota is wrong.
//   - ErrNoQuotas: a quota is required, and the filesystem does not enforce it.
//   - fault.SpaceError, which is an ErrNoSpace: the bytes are not available.
//   - ErrConflict: the name is taken, by another claim, size, quota or kind of volume, by a
//     directory without a record, or by a bound volume whose directory is missing.
func (p *Pool) Create(s Spec) (Volume, error) {
	const op = "create volume"
	err := p.checkSpec(s)
	if err == nil && s.Source != nil {
		err = fmt.Errorf("%w: it is to be a copy, which Clone makes", ErrInvalid)
	}
	if err != nil {
		return Volume{}, fault.Failed(op, s.Name, err)
	}
	return resultOf(p.withAnyVolume, op, s.Name, func(c *call) (Volume, error) { return p.create(c, s) })
}

// checkSpec returns ErrInvalid for a volume that no pool with this configuration can make.
func (p *Pool) checkSpec(s Spec) error {
	if s.Bytes <= 0 {
		return fmt.Errorf("%w: %d bytes requested; a volume has at least one", ErrInvalid, s.Bytes)
	}
	if err := s.Mode.Check(); err != nil {
		return err
	}
	if err := volumequota.Validate(s.Quota, s.Inodes); err != nil {
		return err
	}
	if most := p.config.TrashRetentionMax; s.TrashRetention > int64(most/time.Second) {
		return fmt.Errorf("%w: it is to be kept for %s once it is deleted, and this node keeps deleted volumes for at "+
			"most %s", ErrInvalid, time.Duration(s.TrashRetention)*time.Second, most)
	}
	return nil
}

func (p *Pool) create(c *call, s Spec) (Volume, error) {
	known, ok := p.records.Get(s.Name)
	if ok && known.InTrash() {
		return Volume{}, fmt.Errorf("%w: %w", ErrConflict, ErrSetAside)
	}
	if ok {
		if there, err := p.same(c, known, s); err != nil {
			return Volume{}, err
		} else if there {
			return p.volume(c, known, false), nil
		}
	}
	if err := volumequota.Check(c.quotas.Support, s.Quota, s.Inodes); err != nil {
		return Volume{}, err
	}
	if !ok {
		if err := absent(c, s.Name); err != nil {
			return Volume{}, err
		}
		release, err := p.allocate(c, space.Request{Name: s.Name, Bytes: s.Bytes, Wanted: s.Bytes}, "")
		if err != nil {
			return Volume{}, err
		}
		defer release()
	}
	if err := c.StillWanted(); err != nil {
		return Volume{}, err
	}
	r, err := p.build(c, p.newRecord(s, record.Creating))
	if err != nil {
		return Volume{}, err
	}
	return p.volume(c, r, false), nil
}

var errTaken = fmt.Errorf("%w: there is a directory or file of this name without a record; "+
	"it is no volume of this agent", ErrConflict)

// absent returns nil for a volume without a record if nothing has its name.
func absent(c *call, name string) error {
	there, err := file.Exists(c.Base, name)
	if there {
		return errTaken
	}
	return err
}

// newRecord returns the record of a new volume. Its time of creation differs from that of each kept
// volume of its name; see record.SameVolume.
func (p *Pool) newRecord(s Spec, state record.State) record.Record {
	created := now()
	for p.kept.Has(s.Name, created) {
		created = created.Add(time.Second)
	}
	return record.Record{
		Version: record.Version, Name: s.Name, State: state, Bytes: s.Bytes, Owner: s.Owner, PV: s.PV,
		ReclaimPolicy: s.ReclaimPolicy, Cluster: s.Cluster, Ephemeral: s.Ephemeral, Quota: s.Quota, Inodes: s.Inodes,
		Mode: s.Mode, UID: s.UID, GID: s.GID, TrashRetention: s.TrashRetention, Source: s.Source,
		Created: created, Trash: rand.Text(),
	}
}

// same compares the record with the request, and reports whether the volume is in place.
// A missing directory may be created again only while the volume has no PV: a pod must not
// find an empty directory in place of its data.
func (p *Pool) same(c *call, r record.Record, s Spec) (there bool, err error) {
	if r.Owner.UID != s.Owner.UID || r.Bytes != s.Bytes {
		return false, fmt.Errorf("%w: exists with %d bytes for %v, requested with %d bytes for %v",
			ErrConflict, r.Bytes, r.Owner, s.Bytes, s.Owner)
	}
	if differ(r.PV, s.PV) {
		return false, fmt.Errorf("%w: exists for PV %s, requested for PV %s", ErrConflict, r.PV, s.PV)
	}
	if !r.Source.Equal(s.Source) {
		return false, fmt.Errorf("%w: exists as %s, requested as %s", ErrConflict, origin(r.Source), origin(s.Source))
	}
	if r.Ephemeral != s.Ephemeral {
		return false, fmt.Errorf("%w: exists with ephemeral %v, requested with ephemeral %v", ErrConflict, r.Ephemeral,
			s.Ephemeral)
	}
	if !r.Adopted && (r.Quota != s.Quota || r.Inodes != s.Inodes) {
		return false, fmt.Errorf("%w: exists with the quota %v (inodes: %d), requested with %v (inodes: %d)",
			ErrConflict, r.Quota, r.Inodes, s.Quota, s.Inodes)
	}
	if !r.Adopted && (r.Mode != s.Mode || r.UID != s.UID || r.GID != s.GID) {
		return false, fmt.Errorf("%w: exists with mode %v, uid %d and gid %d, requested with mode %v, uid %d and gid %d",
			ErrConflict, r.Mode, r.UID, r.GID, s.Mode, s.UID, s.GID)
	}
	if there, err = file.IsDir(c.Base, r.Name); there || err != nil {
		return there, err
	}
	if other, err := file.Exists(c.Base, r.Name); other || err != nil {
		return false, pooldir.NotDir(err)
	}
	if r.State == record.Bound {
		return false, fmt.Errorf("%w: its directory is missing, and PV %s uses it; "+
			"restore the directory, or delete the volume", ErrConflict, r.PV)
	}
	return false, nil
}

// origin describes how a volume begins.
func origin(s *record.Source) string {
	if s == nil {
		return "a volume that is no copy"
	}
	return fmt.Sprintf("a copy of volume %s of claim %s", s.Volume, s.UID)
}

// differ compares two values, either of which may be unknown, that is, "".
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// build creates the volume of a record that is creating, and returns its last record. If a
// step fails, it rolls back the steps before.
//
// The state on the disk stays creating: with the directory in place, recovery treats it as
// ready, and Bind writes the record once more. See writeDeferred.
func (p *Pool) build(c *call, r record.Record) (record.Record, error) {
	placed := false
	r, err := p.stage(c, r)
	if err == nil {
		placed, err = p.place(c, r.Name)
	}
	if err != nil {
		p.rollBackCreate(c, r.Name, placed)
		return r, err
	}
	r.State = record.Ready
	p.records.Defer(r)
	if r.QuotaID != 0 {
		p.ledger.Begin(r.Name)
	}
	return r, nil
}

// place renames the staged directory into place, with all its properties.
func (p *Pool) place(c *call, name string) (placed bool, err error) {
	p.step("create.rename")
	err = tree.Rename(c.Staging, name, c.Base, name)
	if err == unix.EEXIST {
		return false, errTaken
	}
	if err != nil {
		return false, fault.Path("rename", name, err)
	}
	p.step("create.sync")
	return true, file.Flush(c.Base, c.Staging)
}

// stage creates the directory with its mode, label and quota, and writes the record, which
// it returns with the quota's ID. It flushes both; of a subvolume only the record, because
// the flush of the rename in place writes the rest.
func (p *Pool) stage(c *call, r record.Record) (record.Record, error) {
	p.step("create.mkdir")
	err := c.quotas.MakeStaged(r.Name, r)
	if errors.Is(err, unix.EEXIST) { // an earlier call could not roll it back
		if err = p.unstage(c, r.Name); err == nil {
			p.step("create.again")
			err = c.quotas.MakeStaged(r.Name, r)
		}
	}
	if err != nil {
		return r, fault.Path("create", pooldir.StagingName+"/"+r.Name, err)
	}
	dir, err := tree.OpenDir(c.Staging, r.Name)
	if err != nil {
		return r, fault.Path("open", pooldir.StagingName+"/"+r.Name, err)
	}
	defer unix.Close(dir)
	if r.QuotaID, err = p.setUp(c, dir, r); err != nil {
		return r, err
	}
	p.step("create.record")
	if c.quotas.MakesSubvolume() {
		return r, p.records.PutNew(c.Records, p.steps("record"), r)
	}
	return r, p.records.PutNew(c.Records, p.steps("record"), r, dir, c.Records)
}

// setUp gives a staged directory its properties.
func (p *Pool) setUp(c *call, dir int, r record.Record) (quotaID uint64, err error) {
	p.step("create.mode")
	// Not with mkdir(2), which applies the umask and drops other bits.
	if err := unix.Fchmod(dir, uint32(cmp.Or(r.Mode, p.config.Mode))); err != nil {
		return 0, fault.Path("chmod", r.Name, err)
	}
	if r.UID != 0 || r.GID != 0 {
		p.step("create.owner")
		// After the mode: chmod(2) clears setgid if the process is not in the group,
		// and chown(2) keeps it on a directory.
		if err := unix.Fchown(dir, int(r.UID), int(r.GID)); err != nil {
			return 0, fault.Path("chown", r.Name, err)
		}
	}
	if err := c.SetLabel(dir); err != nil {
		return 0, err
	}
	// The quota comes last: a small one may leave no room for the others.
	return c.quotas.Set(dir, r)
}

// rollBackCreate rolls back what build did. It returns no error: the next call for the
// volume, or the next start, recovers what it leaves.
func (p *Pool) rollBackCreate(c *call, name string, placed bool) {
	if !placed {
		if p.drop(c, name) == nil {
			_ = p.unstage(c, name)
		}
		return
	}
	p.step("create.rmdir")
	if file.RemoveDir(c.Base, name) == nil {
		_ = p.dropGone(c, name)
	}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }
