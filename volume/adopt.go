package volume

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Adopt records a directory that was there before us as a bound volume. It
// touches the record alone, never the directory, and does nothing where the
// volume is already recorded for the same claim and PV. Space is not asked
// for: the data is there. No limit is set, whatever s.Limit says: it would not
// count what is there. Zero bytes promise nothing; the data is
// then used by others, as far as the pool is concerned.
//
// The caller makes sure that the directory is the PV's. The error is
// ErrNotFound where there is none, ErrConflict where something else has the
// name or the record is another's, ErrInUse where the directory is a mount
// point.
func (p *Pool) Adopt(s Spec) (Volume, error) {
	const op = "adopt volume"
	if s.Bytes < 0 {
		return Volume{}, fault.Failed(op, s.Name, fmt.Errorf("%w: %d bytes asked for; less than nothing cannot be promised", ErrInvalid, s.Bytes))
	}
	var v Volume
	err := p.on(op, s.Name, func(c *call) error {
		if r, ok := p.records.Get(s.Name); ok {
			if differ(r.Owner.UID, s.Owner.UID) || differ(r.PV, s.PV) {
				return fmt.Errorf("%w: it is recorded for %v and PV %q, not for %v and PV %q",
					ErrConflict, r.Owner, r.PV, s.Owner, s.PV)
			}
			there, err := file.IsDir(c.Base, r.Name)
			v = p.volume(c, r, !there)
			return err
		}
		if err := c.CheckPlain(s.Name); err != nil {
			return err
		}
		r := newRecord(s, Bound)
		r.Adopted, r.Quota, r.Inodes = true, QuotaBestEffort, 0
		p.step("adopt.record")
		if err := p.put(c, r); err != nil {
			return err
		}
		v = p.volume(c, r, false)
		return nil
	})
	if err != nil {
		return Volume{}, err
	}
	return v, nil
}

// Adoptable looks at a directory that no record knows, and changes nothing. It
// reports whether nothing is in it. The errors are those of Adopt; ErrConflict
// is also that there is a record.
func (p *Pool) Adoptable(name string) (bool, error) {
	empty := false
	err := p.on("look at directory", name, func(c *call) error {
		if r, ok := p.records.Get(name); ok {
			return fmt.Errorf("%w: it is recorded for %v and PV %q", ErrConflict, r.Owner, r.PV)
		}
		if err := c.CheckPlain(name); err != nil {
			return err
		}
		fd, err := tree.OpenDir(c.Base, name)
		if err != nil {
			return fault.Path("open", name, err)
		}
		defer unix.Close(fd)
		empty, err = tree.Empty(fd)
		return fault.Path("read", name, err)
	})
	return err == nil && empty, err
}

// Disown takes back what Adopt did: the volume's record goes, and its promise,
// because somebody else looks after the directory. That is never touched, and
// need not be there. It does nothing where there is no record.
//
// The error is ErrConflict where the directory was made here, ErrMigrating while
// a migration is under way, or where the volume has a PV from one that is over.
func (p *Pool) Disown(name string) error {
	return p.on("disown volume", name, func(c *call) error {
		r, ok := p.records.Get(name)
		switch {
		case !ok:
			return nil
		case !r.Adopted || !r.InPlace():
			return fmt.Errorf("%w: it was not adopted", ErrConflict)
		case r.Migration != nil:
			return fmt.Errorf("%w (%s)", ErrMigrating, r.Migration.Step)
		case r.QuotaID != 0:
			return fmt.Errorf("%w: it has a limit, which would outlive its record", ErrConflict)
		}
		return p.drop(c, name)
	})
}

// Bind records that a PV names the volume, with the PV's name and reclaim
// policy, and with claim and cluster where they were not known; it is no orphan
// any more then. It reports whether the record changed; it does nothing where
// all of that is known. The disk has it with the next Purge, for the PV says the
// same.
//
// The error is ErrNotFound where there is no volume, ErrConflict where the
// volume is another PV's or another claim's.
func (p *Pool) Bind(name string, b Binding) (bool, error) {
	const op = "bind volume"
	if b.PV == "" {
		return false, fault.Failed(op, name, fmt.Errorf("%w: no PV is named", ErrInvalid))
	}
	changed := false
	err := p.on(op, name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok {
			return ErrNotFound
		}
		if differ(r.Owner.UID, b.Owner.UID) || differ(r.PV, b.PV) {
			return fmt.Errorf("%w: it is recorded for %v and PV %q, not for %v and PV %q",
				ErrConflict, r.Owner, r.PV, b.Owner, b.PV)
		}
		bound := bind(r, b)
		if changed = bound != r; !changed {
			return nil
		}
		if r.State == Ready && r.Orphan == (Orphan{}) {
			p.records.SetLate(bound)
			return nil
		}
		p.step("bind.record")
		return p.put(c, bound)
	})
	return err == nil && changed, err
}

// Reown is Bind for a PV that was given to another claim: the volume is b.Owner's
// from now on, and was the claim with the UID was. The promise and the data stay
// as they are. It does nothing where the volume is b.Owner's already, as Bind
// does nothing.
//
// The caller makes sure that the claim it was is gone, and that the PV is there
// and is the other one's. The error is ErrInvalid where either UID or the PV is
// not told, ErrNotFound where there is no volume, ErrConflict where it is not in
// place, another PV's or, by now, a third claim's, ErrMigrating while its PV is
// being replaced.
func (p *Pool) Transfer(name, was string, b Binding) error {
	const op = "transfer volume to another claim"
	if b.PV == "" || b.Owner.UID == "" || was == "" {
		return fault.Failed(op, name, fmt.Errorf("%w: PV %q, from the claim %q to %v; all three must be known", ErrInvalid, b.PV, was, b.Owner))
	}
	return p.on(op, name, func(c *call) error {
		r, ok := p.records.Get(name)
		switch {
		case !ok:
			return ErrNotFound
		case !r.InPlace() || r.Ephemeral || r.PV != b.PV || r.Owner.UID != was && r.Owner.UID != b.Owner.UID:
			return fmt.Errorf("%w: it is %s, recorded for %v and PV %q, not for claim %s and PV %q", ErrConflict, r.State, r.Owner, r.PV, was, b.PV)
		}
		if err := r.Held(); err != nil {
			return err
		}
		given := r
		given.Owner = b.Owner
		if b.Cluster != "" {
			given.Cluster = b.Cluster // it is where the claim is
		}
		if given = bind(given, b); given == r {
			return nil
		}
		p.step("transfer.record")
		return p.put(c, given)
	})
}

func bind(r Record, b Binding) Record {
	r.State, r.PV, r.Orphan = Bound, b.PV, Orphan{}
	// Who asked through CSI may have told the UID alone, by the volume's name.
	if r.Owner.UID == "" || r.Owner.Name == "" && b.Owner.Name != "" {
		r.Owner = b.Owner
	}
	if r.Cluster == "" {
		r.Cluster = b.Cluster
	}
	if b.ReclaimPolicy != "" {
		r.ReclaimPolicy = b.ReclaimPolicy
	}
	return r
}

// NoteOrphan writes on the volume's record that it is an orphan and why, and
// returns the record. The note outlives the process; a note for the same reason
// keeps its time, and adds watched, to the second, to the time for which it was
// watched. An empty why takes the note back, as Bind does. It does nothing where
// the record says all that already.
//
// The error is ErrNotFound where there is no volume.
func (p *Pool) NoteOrphan(name, why string, watched time.Duration) (Record, error) {
	var noted Record
	err := p.on("note orphan", name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok {
			return ErrNotFound
		}
		noted = r
		switch {
		case r.Orphan.Why == why && (why == "" || watched < time.Second):
			return nil
		case r.Orphan.Why == why:
			r.Orphan.WatchedSeconds += int64(watched / time.Second)
		case why == "":
			r.Orphan = Orphan{}
		default:
			r.Orphan = Orphan{Since: time.Now().UTC().Truncate(time.Second), Why: why}
		}
		p.step("orphan.record")
		if err := p.put(c, r); err != nil {
			return err
		}
		noted = r
		return nil
	})
	if err != nil {
		return Record{}, err
	}
	return noted, nil
}
