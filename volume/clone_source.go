package volume

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// openSource checks the source of a clone under its lock, and opens it for the job, which the caller
// closes.
func (p *Pool) openSource(op string, j *cloneJob) error {
	return p.withSource(op, j.spec.Source.Volume, func(c *call) error {
		r, err := p.sourceRecord(j.spec)
		if err != nil {
			return err
		}
		if err := j.spec.fits(c, p, r); err != nil {
			return err
		}
		points, err := c.MountPoints(r.Name)
		if err != nil {
			return err
		}
		fd, err := tree.OpenDir(c.Base, r.Name)
		if err != nil {
			return fault.Path("open", r.Name, err)
		}
		crash := j.spec.Consistency == ConsistencyCrash
		j.exclusive, j.oneFile = crash && len(points) == 0, crash && len(points) > 0
		if j.of, err = sourceOf(c, fd, r.Name, points); err != nil {
			unix.Close(fd)
			return err
		}
		j.before = p.before(r)
		if !j.open(fd) {
			return fmt.Errorf("%w: its caller has left", ErrNotReady)
		}
		return nil
	})
}

// withSource is withAnyVolume for the source of a clone: what is wrong with the source is an ErrSource.
func (p *Pool) withSource(op, name string, do func(*call) error) error {
	err := p.withAnyVolume(op, name, do)
	if err == nil || errors.Is(err, ErrNotReady) || errors.Is(err, ErrSource) || errors.Is(err, ErrInvalid) {
		return err
	}
	return fault.Failed(op, name, fmt.Errorf("%w: %w", ErrSource, unwrapped(err)))
}

// sourceRecord returns the record of the source, if it is the volume that is meant, and can be copied.
// The caller holds its lock.
func (p *Pool) sourceRecord(s CloneSpec) (record.Record, error) {
	want := s.Source
	r, ok := p.records.Get(want.Volume)
	switch {
	case !ok || r.State == record.Deleting:
		return r, ErrNotFound
	case r.InTrash():
		return r, ErrSetAside
	case !r.InPlace():
		return r, fmt.Errorf("%w: it is %s", ErrNotFound, r.State)
	}
	if now := record.SourceOf(p.ID(), r); !now.Equal(want) {
		return r, fmt.Errorf("%w: volume %s, which was to be copied for claim %s, is another one or another claim's by now "+
			"(%v)", ErrConflict, want.Volume, want.UID, r.Owner)
	}
	switch {
	case r.Ephemeral:
		return r, fmt.Errorf("%w: it is the inline volume of a pod", ErrConflict)
	case want.UID == "" && s.Owner.UID != "": // a caller without any claims knows volumes by their names alone
		return r, fmt.Errorf("%w: no claim is recorded for it", ErrConflict)
	case r.Adopted && !boundHere(r):
		return r, fmt.Errorf("%w: its directory was adopted, and its PV was not seen Bound to a claim yet", ErrConflict)
	case differ(r.Cluster, s.Cluster):
		return r, fmt.Errorf("%w: it is recorded for another cluster", ErrConflict)
	}
	return r, r.Migrating()
}

// boundHere reports whether the PV of an adopted volume was seen Bound; see Record.PVUID.
func boundHere(r record.Record) bool { return r.State == record.Bound && r.PVUID != "" }

// fits returns an error if the clone cannot have what the source has, or the source is not whole.
func (s CloneSpec) fits(c *call, p *Pool, r record.Record) error {
	if err := c.CheckPlain(r.Name); errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: its directory is missing", ErrNotFound)
	} else if err != nil {
		return err
	}
	if s.Bytes < r.Bytes {
		return fmt.Errorf("%w: %d bytes requested, and the source %s has %d; a copy cannot be smaller", ErrInvalid, s.Bytes,
			r.Name, r.Bytes)
	}
	if used := p.ledger.Usage(r); r.Bytes == 0 && used.Known && s.Bytes < used.Bytes {
		return fmt.Errorf("%w: %d bytes requested, and the source %s uses %d", ErrInvalid, s.Bytes, r.Name, used.Bytes)
	}
	return nil
}

// copiedBytes returns how many bytes of a volume's blocks copies of it may have, in all pools of the
// process on its filesystem, and among their kept volumes. sure is false if there may be more copies: a
// pool was not open yet, or has records that cannot be understood.
func (p *Pool) copiedBytes(r record.Record) (bytes int64, sure bool) {
	of, all := record.SourceOf(p.ID(), r), []record.Copy(nil)
	sure = true
	for _, other := range p.pools() {
		if other != p && other.ledger.IsApart(p.ledger) {
			continue
		}
		all = slices.Concat(all, other.records.CopiesOf(of), other.kept.CopiesOf(of))
		sure = sure && (other == p || other.ID() != "" || other.NotOffered() != "") && len(other.records.Damaged()) == 0
	}
	return record.CopiedBytes(of, r.Bytes, all), sure
}

// copyShares reports whether a volume that was made as a copy may share blocks with its source, or with
// another copy of that: it is not known that the source is, or was, on another filesystem.
func (p *Pool) copyShares(r record.Record) bool {
	for _, other := range p.pools() {
		if other != p && other.ID() == r.Source.Pool && other.ledger.IsApart(p.ledger) {
			return false
		}
	}
	return true
}

// before returns the volumes whose blocks a copy of this one may have, beside its own: those of which it
// is itself a copy. One that its pool does not have any more is left out.
func (p *Pool) before(r record.Record) *record.Source {
	var all []record.Source
	for at := r.Source; at != nil; at = at.Before {
		if !p.hasLost(*at) {
			all = append(all, *at)
		}
	}
	return record.Chain(all)
}

// hasLost reports whether a volume is gone for sure: its pool is open, and has it neither in place nor
// kept.
func (p *Pool) hasLost(s record.Source) bool {
	for _, other := range p.pools() {
		if s.Pool == "" || other.ID() != s.Pool {
			continue
		}
		r, ok := other.records.Get(s.Volume)
		return !(ok && r.Created.Equal(s.Created)) && !other.kept.Has(s.Volume, s.Created) &&
			other.records.Damage(s.Volume) == nil
	}
	return false
}

// raiseSource gives the source what its copy may keep of its blocks; see volumequota.Quotas.Loose.
func (p *Pool) raiseSource(op string, j *cloneJob) error {
	return p.withSource(op, j.spec.Source.Volume, func(c *call) error {
		r, err := p.sourceRecord(j.spec)
		if err == nil && c.quotas.Loosens() {
			_, err = p.matchQuota(c, r)
		}
		return err
	})
}

// matchSources raises the quotas of volumes that have copies, and lowers those whose copies are gone. An
// error is left to the next purge.
func (p *Pool) matchSources(c *call) {
	if !c.quotas.Loosens() {
		return
	}
	names := p.quotas.Loose()
	for _, other := range p.pools() {
		names = slices.Concat(names, other.records.Sources(), other.kept.Sources())
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c.Progress()
		unlock, free := p.names.TryLock(name)
		if !free {
			continue
		}
		if r, ok := p.records.Get(name); ok && r.InPlace() {
			_, _ = c.quotas.Match(r)
		}
		unlock()
	}
}

// finishSource returns an ErrSource unless the source still is the volume that is meant: its next
// claim's data may have been copied. It notes what the source shares with the copy from now on.
func (p *Pool) finishSource(op string, j *cloneJob) error {
	return p.withSource(op, j.spec.Source.Volume, func(c *call) error {
		r, err := p.sourceRecord(j.spec)
		if err != nil {
			return err
		}
		return p.noteCopy(c, r, j)
	})
}

// noteCopy notes what a volume and its copy share, before a counter of the kernel has it for both. It
// does nothing if that does not happen. As much may be noted that is not shared: then less is available
// until the next walk.
func (p *Pool) noteCopy(c *call, r record.Record, j *cloneJob) error {
	if j.bytes || j.uses == 0 || !c.sharesCounted() {
		return nil
	}
	p.ledger.Share(r, j.uses)
	return p.writeShared(c)
}

// checkShares decides whether the clone is a snapshot of the source. If not, it finds out whether files
// of the pool can share blocks with those of the source, and returns an ErrUnshared if they would have
// to be copied, and must not.
func (p *Pool) checkShares(c *call, j *cloneJob) error {
	if j.spec.From.ledger.On(c.Filesystem) {
		if planned, err := j.planSnapshot(c); planned || err != nil {
			return err
		}
		p.step("clone.probe")
		shares, err := canShare(c.Staging)
		if shares || err != nil {
			return err
		}
	}
	j.bytes = true
	switch {
	case !j.spec.CopyBytes:
		return fmt.Errorf("%w: this filesystem has no reflinks, or the source is on another one; permit to copy its bytes, or "+
			"use a pool on XFS or btrfs", ErrUnshared)
	case j.oneFile:
		return inUse(j.spec, "its bytes are copied over some time")
	}
	return nil
}

// inUse is the error of a source in use whose copy would not be what was asked for.
func inUse(s CloneSpec, why string) error {
	return fmt.Errorf("%w: %w: something uses volume %s, and %s: stop its pods, or permit a copy that is fuzzy", ErrSource,
		ErrInUse, s.Source.Volume, why)
}

// canShare reports whether files on the filesystem of a directory can share blocks. It tries that with
// two files without names.
func canShare(dir int) (bool, error) {
	var files [2]int
	for i := range files {
		fd, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err == unix.EOPNOTSUPP || err == unix.EISDIR {
			return false, nil // a filesystem without such files has no reflinks either
		}
		if err != nil {
			return false, fault.Path("create", "a file without a name", err)
		}
		defer unix.Close(fd)
		files[i] = fd
	}
	if _, err := unix.Pwrite(files[0], make([]byte, 4096), 0); err != nil {
		return false, fault.Path("write", "a file without a name", err)
	}
	return unix.IoctlFileClone(files[1], files[0]) == nil, nil
}
