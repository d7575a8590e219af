package volume

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// sourceAt is what decides how a source is copied, beside its spec.
type sourceAt struct {
	subvolume bool
	nested    string   // a subvolume in it; "" if there is none
	mounted   []string // paths in it where something is mounted
}

// sourceOf returns the sourceAt of an open volume, which has these mount points.
func sourceOf(c *call, fd int, name string, points []string) (of sourceAt, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return of, fault.Path("read", name, err)
	}
	if !c.quotas.Snapshots(st.Ino) {
		return of, nil
	}
	of.subvolume = true
	if of.nested, err = quota.Nested(fd); err != nil {
		return of, fault.Path("read", name, err)
	}
	real, err := c.RealPath()
	for _, point := range points {
		if at, in := strings.CutPrefix(point, real+"/"+name+"/"); in {
			of.mounted = append(of.mounted, at)
		}
	}
	return of, err
}

// planSnapshot decides whether the clone is a snapshot, which is right whatever uses the source. A
// source with subvolumes in it is copied file by file, as they would be empty in a snapshot, and
// planSnapshot returns an error if it is in use and files of different moments are not permitted.
func (j *cloneJob) planSnapshot(c *call) (planned bool, err error) {
	switch {
	case !j.of.subvolume || !c.quotas.MakesSubvolume():
		return false, nil
	case j.of.nested == "":
		j.mu.Lock()
		defer j.mu.Unlock()
		j.snapshot, j.exclusive, j.oneFile = true, false, false
		return true, nil
	case j.oneFile:
		return false, inUse(j.spec, nestedIn(j.of.nested))
	}
	return false, nil
}

// nestedIn says why a snapshot would not be what it copies. A tenant has chosen the path.
func nestedIn(path string) string {
	const most = 200
	if len(path) > most {
		path = path[:most] + "..."
	}
	return fmt.Sprintf("it has the subvolume %q, which would be empty in a snapshot", path)
}

// stillWhole returns an ErrInUse if a subvolume was made in the source since the copy was planned.
func (j *cloneJob) stillWhole() error {
	nested, err := quota.Nested(j.source)
	if err != nil || nested == "" {
		return err
	}
	return fmt.Errorf("%w: %w: %s: it was made since the copy began; the copy starts again", ErrSource, ErrInUse, nestedIn(nested))
}

// copySnapshot replaces the staged directory by a snapshot of the source, with label and quota. It
// flushes nothing: after the rename of a subvolume btrfs commits all before it with the next flush.
//
// The staged directory stays until then: without it, a start would take what has the clone's name in
// the pool for the clone.
func (p *Pool) copySnapshot(ctx context.Context, d *pooldir.Dir, j *cloneJob, r record.Record) error {
	if err := j.stillWhole(); err != nil {
		return err
	}
	p.step("clone.snapshot")
	name := stagedName(r) + record.SnapshotSuffix
	if err := p.openQuotas.Snapshot(j.source, name); err != nil {
		if err == unix.ETXTBSY {
			return fmt.Errorf("%w: %w: something swaps to a file in it", ErrSource, ErrInUse)
		}
		return fault.Path("make the snapshot", name, err)
	}
	p.step("clone.unlock")
	unlocked := tree.Unlock(d.Staging, name) // it could not be renamed
	p.step("clone.replace")
	if err := unix.Renameat(d.Staging, name, d.Staging, stagedName(r)); err != nil {
		return fault.Path("rename", name, err)
	}
	if err := j.stillWhole(); err != nil {
		return err
	}
	dir, err := openStaged(d, r)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := d.SetLabel(dir); err != nil {
		return err
	}
	// Last: a small quota may leave no room for the label.
	if j.quotaID, err = p.openQuotas.SetSnapshot(dir, r); err != nil {
		return err
	}
	j.mu.Lock()
	j.copied, j.leftOut = true, j.of.leftOut(unlocked)
	j.mu.Unlock()
	return ctx.Err()
}

// leftOut describes what a snapshot lacks.
func (s sourceAt) leftOut(unlocked bool) string {
	var left tree.LeftOut
	for _, path := range s.mounted {
		left.Add(path, "something is mounted there")
	}
	if unlocked {
		left.Add(".", "the copy does not have its flags i and a")
	}
	return left.String()
}
