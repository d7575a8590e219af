package volume

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Create makes the volume, or returns it if it is there for the same claim
// with the same size, so callers may retry. The directory is empty, has the
// configured mode and label, and stays after a power cut once Create returned.
//
// The error is ErrConflict where the name is taken: by another claim, with
// another size, by an ephemeral volume where none is asked for or the reverse, by a directory without a record, or by a bound volume whose
// directory was removed by hand; a SpaceError, which is an ErrNoSpace, where
// the pool cannot promise that much; ErrInvalid where the name or the size is
// wrong. With an error there is no volume that was not there before.
func (p *Pool) Create(s Spec) (v Volume, err error) {
	const op = "create volume"
	if s.Bytes <= 0 {
		return v, failed(op, s.Name, fmt.Errorf("%w: %d bytes asked for; a volume has at least one", ErrInvalid, s.Bytes))
	}
	err = p.on(op, s.Name, func(h *handle) (err error) {
		v, err = p.create(h, s)
		return err
	})
	return v, err
}

func (p *Pool) create(h *handle, s Spec) (Volume, error) {
	known, ok := p.record(s.Name)
	if ok {
		if there, err := p.same(h, known, s); err != nil {
			return Volume{}, err
		} else if there {
			return p.volume(known, false), nil
		}
	} else {
		if there, err := exists(h.base, s.Name); there || err != nil {
			return Volume{}, taken(err)
		}
		release, err := p.reserve(h, s.Name, s.Bytes)
		if err != nil {
			return Volume{}, err
		}
		defer release()
	}
	r := newRecord(s, Creating)
	if err := p.build(h, r); err != nil {
		return Volume{}, err
	}
	r.State = Ready
	return p.volume(r, false), nil
}

func taken(err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: there is a directory or file of this name without a record; it is no volume of ours", ErrConflict)
}

func newRecord(s Spec, state State) Record {
	return Record{
		Version: recordVersion, Name: s.Name, State: state, Bytes: s.Bytes, Owner: s.Owner, PV: s.PV,
		ReclaimPolicy: s.ReclaimPolicy, Cluster: s.Cluster, Ephemeral: s.Ephemeral, Created: time.Now().UTC().Truncate(time.Second),
	}
}

// same compares what is recorded with what is asked for. It reports whether
// the volume is in place. One that is not may be made again only while nobody
// used it: an empty directory in place of data is worse than none.
func (p *Pool) same(h *handle, r Record, s Spec) (there bool, err error) {
	if r.Owner.UID != s.Owner.UID || r.Bytes != s.Bytes {
		return false, fmt.Errorf("%w: exists with %d bytes for %v, asked for %d bytes for %v",
			ErrConflict, r.Bytes, r.Owner, s.Bytes, s.Owner)
	}
	if differ(r.PV, s.PV) {
		return false, fmt.Errorf("%w: exists for PV %s, asked for PV %s", ErrConflict, r.PV, s.PV)
	}
	if r.Ephemeral != s.Ephemeral {
		return false, fmt.Errorf("%w: exists with ephemeral %v, asked for ephemeral %v", ErrConflict, r.Ephemeral, s.Ephemeral)
	}
	if there, err = isDir(h.base, r.Name); there || err != nil {
		return there, err
	}
	if other, err := exists(h.base, r.Name); other || err != nil {
		return false, notDir(err)
	}
	if r.State == Bound {
		return false, fmt.Errorf("%w: its directory is missing, and PV %s uses it; restore the directory, or delete the volume",
			ErrConflict, r.PV)
	}
	return false, nil
}

// differ compares what either side may not know.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// build makes the volume from its record on. Where a step fails it takes back
// the ones before, as far as the disk lets it.
func (p *Pool) build(h *handle, r Record) error {
	p.step("create.record")
	if err := p.put(h, r); err != nil {
		p.unmake(h, r.Name, false)
		return err
	}
	placed, err := p.place(h, r.Name)
	if err == nil {
		p.step("create.ready")
		r.State = Ready
		err = p.put(h, r)
	}
	if err != nil {
		p.unmake(h, r.Name, placed)
	}
	return err
}

// place makes the directory in staging and renames it into place, where it
// appears with all its properties.
func (p *Pool) place(h *handle, name string) (placed bool, err error) {
	if err := p.stage(h, name); err != nil {
		return false, err
	}
	p.step("create.rename")
	err = unix.Renameat2(h.staging, name, h.base, name, unix.RENAME_NOREPLACE)
	if err == unix.EEXIST {
		return false, taken(nil)
	}
	if err != nil {
		return false, pathError("rename", name, err)
	}
	p.step("create.sync")
	return true, syncDirs(h.base, h.staging)
}

// stage makes the directory with its mode and label, and flushes it.
func (p *Pool) stage(h *handle, name string) error {
	p.step("create.mkdir")
	if err := unix.Mkdirat(h.staging, name, 0o700); err != nil {
		return pathError("create", stagingName+"/"+name, err)
	}
	fd, err := tree.OpenDir(h.staging, name)
	if err != nil {
		return pathError("open", stagingName+"/"+name, err)
	}
	defer unix.Close(fd)
	p.step("create.mode")
	// After the fact, because mkdir(2) heeds the umask and drops other bits.
	if err := unix.Fchmod(fd, p.mode); err != nil {
		return pathError("chmod", name, err)
	}
	if err := p.setLabel(h, fd); err != nil {
		return err
	}
	return syncDirs(fd)
}

// unmake takes back what build did. Its own errors are of no use to anybody:
// what it leaves is found in the record by the next call, or the next start.
func (p *Pool) unmake(h *handle, name string, placed bool) {
	if placed && rmdir(h.base, name) != nil {
		return
	}
	if !placed && p.drop(h, name) == nil {
		_ = p.unstage(h, name)
		return
	}
	_ = p.drop(h, name)
}
