package volume

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Adopt records a directory that was there before the agent as a bound volume. It writes
// the record and does not change the directory. It does nothing if the volume is recorded
// for the same claim and PV. It does not require available space, because the data is
// there, and sets no quota, whatever s.Quota is: the quota would not count the data. Zero
// bytes allocate nothing; the data then counts as external.
//
// The caller makes sure that the directory is the PV's. The error is ErrNotFound if there
// is none, ErrConflict if the name is taken, the record is of another claim or PV, or the
// directory is a pool, ErrInUse if the directory is a mount point.
func (p *Pool) Adopt(s Spec) (Volume, error) {
	const op = "adopt volume"
	if s.Bytes < 0 {
		return Volume{}, fault.Failed(op, s.Name, fmt.Errorf("%w: %d bytes requested; a size cannot be negative",
			ErrInvalid, s.Bytes))
	}
	return resultOf(p.withVolume, op, s.Name, func(c *call) (Volume, error) {
		if r, ok := p.records.Get(s.Name); ok {
			if differ(r.Owner.UID, s.Owner.UID) || differ(r.PV, s.PV) {
				return Volume{}, recordedFor(r, s.Owner, s.PV)
			}
			return p.found(c, r)
		}
		if err := adoptable(c, s.Name); err != nil {
			return Volume{}, err
		}
		r := p.adoptedRecord(s)
		return p.volume(c, r, false), p.putFirst(c, "adopt.record", r)
	})
}

// adoptable returns nil for a plain directory that is not the pool of another agent: its
// volumes would go with the adopted one. A directory that cannot be read may be one.
func adoptable(c *call, name string) error {
	if err := c.CheckPlain(name); err != nil {
		return err
	}
	if pool, err := c.ContainsPool(name); pool || err != nil {
		return errors.Join(fmt.Errorf("%w: it is a pool, whose volumes it may have (%s)", ErrConflict, pooldir.PrivateName),
			err)
	}
	return nil
}

func (p *Pool) adoptedRecord(s Spec) record.Record {
	r := p.newRecord(s, record.Bound)
	r.Adopted, r.Quota, r.Inodes = true, record.QuotaBestEffort, 0
	return r
}

func recordedFor(r record.Record, owner record.Owner, pv string) error {
	return fmt.Errorf("%w: it is recorded for %v and PV %q, not for %v and PV %q", ErrConflict, r.Owner, r.PV, owner, pv)
}

// Adoptable checks a directory without a record, and reports whether it is empty. The
// errors are those of Adopt; ErrConflict also if there is a record.
func (p *Pool) Adoptable(name string) (empty bool, err error) {
	return resultOf(p.withVolume, "check directory", name, func(c *call) (bool, error) {
		if r, ok := p.records.Get(name); ok {
			return false, fmt.Errorf("%w: it is recorded for %v and PV %q", ErrConflict, r.Owner, r.PV)
		}
		if err := adoptable(c, name); err != nil {
			return false, err
		}
		fd, err := tree.OpenDir(c.Base, name)
		if err != nil {
			return false, fault.Path("open", name, err)
		}
		defer unix.Close(fd)
		empty, err := tree.Empty(fd)
		return empty, fault.Path("read", name, err)
	})
}

// Bind records that a PV names the volume: the PV's name and reclaim policy, the claim if it
// was not known, and the UID and the cluster of the binding. The volume is no orphan then.
// Bind reports whether the record changed, and does nothing if the record has all of that.
// The write is deferred to the next Purge, because the PV has the same content. That of a clone is
// not: a clone that no PV had is removed without a copy.
//
// The error is ErrNotFound if there is no volume, ErrConflict if the volume is another PV's
// or another claim's.
func (p *Pool) Bind(name string, b Binding) (changed bool, err error) {
	const op = "bind volume"
	if b.PV == "" {
		return false, fault.Failed(op, name, fmt.Errorf("%w: the PV has no name", ErrInvalid))
	}
	return resultOf(p.withVolume, op, name, func(c *call) (bool, error) {
		r, ok := p.records.Get(name)
		if !ok {
			return false, ErrNotFound
		}
		if differ(r.Owner.UID, b.Owner.UID) || differ(r.PV, b.PV) {
			return false, recordedFor(r, b.Owner, b.PV)
		}
		p.seen.Store(name, true)
		bound := bind(r, b)
		switch {
		case bound == r:
			return false, nil
		case r.State == record.Ready && r.Orphan == (record.Orphan{}) && r.Source == nil:
			p.records.Defer(bound)
			return true, nil
		}
		return true, p.putFirst(c, "bind.record", bound)
	})
}

// RecordPolicy writes the reclaim policy of the PV that the volume's record names, and nothing else:
// a note that the volume is an orphan stays, and the PV does not count as seen. It is for a PV that
// Bind cannot take, and for a volume that is set aside. It does nothing if the record has the policy.
//
// The error is ErrNotFound if there is no volume or its deletion was decided, ErrConflict if the
// record names another PV, ErrMigrating while the PV is being replaced.
func (p *Pool) RecordPolicy(name, pv, policy string) error {
	return p.withAnyVolume("record the reclaim policy of volume", name, func(c *call) error {
		r, ok := p.records.Get(name)
		switch {
		case !ok || r.State == record.Deleting:
			return ErrNotFound
		case !r.NamesPV(pv):
			return recordedFor(r, record.Owner{}, pv)
		case r.Migrating() != nil:
			return r.Migrating()
		case r.ReclaimPolicy == policy:
			return nil
		}
		r.ReclaimPolicy = policy
		return p.putFirst(c, "policy.record", r)
	})
}

// RecordClaim writes to the record what the PV and the claim of a bound volume have, so that both can
// be made again. It does nothing if the record has the same. The write is deferred to the next Purge:
// a caller that is not sure about it calls RecordClaim again.
//
// The error is ErrNotFound if there is no volume, ErrConflict if it is not bound to that PV and that
// claim, ErrMigrating while the PV is being replaced.
func (p *Pool) RecordClaim(name, pv string, owner record.Owner, claim *record.Claim) (changed bool, err error) {
	return resultOf(p.withVolume, "record the claim of volume", name, func(*call) (bool, error) {
		r, ok := p.records.Get(name)
		switch {
		case !ok || !r.InPlace():
			return false, ErrNotFound
		case r.State != record.Bound || r.Ephemeral || r.PV != pv || r.Owner != owner:
			return false, recordedFor(r, owner, pv)
		case r.Migrating() != nil:
			return false, r.Migrating()
		case r.Claim.Equal(claim):
			return false, nil
		}
		r.Claim = claim
		p.records.Defer(r)
		return true, nil
	})
}

// Reported notes that the claim has the event about what the copy lacks, which is Record.LeftOut. It does
// nothing if nothing is recorded, or something else. The write is deferred to the next Purge: after a kill
// the caller records the event again.
//
// The error is ErrNotFound if there is no volume.
func (p *Pool) Reported(name, leftOut string) error {
	return p.withAnyVolume("note what the copy lacks", name, func(*call) error {
		r, ok := p.records.Get(name)
		switch {
		case !ok || !r.InPlace():
			return ErrNotFound
		case r.LeftOut == leftOut && leftOut != "":
			r.LeftOut = ""
			p.records.Defer(r)
		}
		return nil
	})
}

// Transfer gives the volume of the claim with UID from to b.Owner, whose PV it is, and binds it.
// Size and data stay. It does nothing if the volume is b.Owner's and Bind would do nothing.
//
// The caller makes sure that the former claim is gone and the PV is b.Owner's. The error is
// ErrInvalid if a UID or the PV is empty, ErrNotFound if there is no volume, ErrConflict if it is
// not in place, or is another PV's or a third claim's, ErrMigrating while its PV is being replaced.
func (p *Pool) Transfer(name, from string, b Binding) error {
	const op = "transfer volume to another claim"
	if b.PV == "" || b.Owner.UID == "" || from == "" {
		return fault.Failed(op, name, fmt.Errorf("%w: PV %q, from the claim %q to %v; all three are required", ErrInvalid,
			b.PV, from, b.Owner))
	}
	return p.withVolume(op, name, func(c *call) error {
		r, ok := p.records.Get(name)
		switch {
		case !ok:
			return ErrNotFound
		case !r.InPlace() || r.Ephemeral || r.PV != b.PV || r.Owner.UID != from && r.Owner.UID != b.Owner.UID:
			return fmt.Errorf("%w: it is %s, recorded for %v and PV %q, not for claim %s and PV %q", ErrConflict, r.State,
				r.Owner, r.PV, from, b.PV)
		}
		if err := r.Migrating(); err != nil {
			return err
		}
		p.seen.Store(name, true)
		to := bind(r.Given(b.Owner), b)
		if to == r {
			return nil
		}
		return p.putFirst(c, "transfer.record", to)
	})
}

// Unsee notes that the PV of a volume went and no agent saw how, so that its last reclaim policy is
// not known: the volume is an orphan of the kind Unseen, or becomes one, until Bind or Transfer sees
// a PV of it. The error is ErrNotFound if there is no volume.
func (p *Pool) Unsee(name string) error {
	return p.withAnyVolume("note that the PV is gone unseen", name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok {
			return ErrNotFound
		}
		p.seen.Delete(name)
		if r.State != record.Bound || r.Orphan.Why == "" || r.Orphan.Unseen {
			return nil
		}
		r.Orphan.Unseen = true
		return p.putFirst(c, "orphan.record", r)
	})
}

func bind(r record.Record, b Binding) record.Record {
	r.State, r.PV, r.Orphan = record.Bound, b.PV, record.Orphan{}
	// A CSI request may carry only the claim's UID, in the volume's name.
	if r.Owner.UID == "" || r.Owner.Name == "" && b.Owner.Name != "" {
		r.Owner = b.Owner
	}
	if b.UID != "" && (b.Bound || r.PVUID == "" || r.PVUID == b.UID) {
		r.PVUID = b.UID
		if b.Cluster != "" {
			r.Cluster = b.Cluster
		}
	}
	if b.ReclaimPolicy != "" {
		r.ReclaimPolicy = b.ReclaimPolicy
	}
	return r
}

// NoteOrphan writes on the volume's record that it is an orphan and why, and returns the
// record. The note survives restarts. A note for the same reason keeps its time, and adds
// watched, in whole seconds, to the time for which the volume was watched. An empty why
// removes the note, as Bind does. It does nothing if the record has all of that.
//
// A bound volume that neither Bind nor Transfer has seen since the pool was opened is noted as
// Unseen: its PV went while no agent ran, maybe with another policy than the recorded one.
//
// It also works on a volume that is set aside. The error is ErrNotFound if there is no volume.
func (p *Pool) NoteOrphan(name, why string, watched time.Duration) (record.Record, error) {
	return resultOf(p.withAnyVolume, "note orphan", name, func(c *call) (record.Record, error) {
		r, ok := p.records.Get(name)
		if !ok {
			return record.Record{}, ErrNotFound
		}
		switch {
		case r.Orphan.Why == why && (why == "" || watched < time.Second):
			return r, nil
		case r.Orphan.Why == why:
			r.Orphan.WatchedSeconds += int64(watched / time.Second)
		case why == "":
			r.Orphan = record.Orphan{}
		case r.Orphan.Why == "":
			_, seen := p.seen.Load(name)
			r.Orphan = record.Orphan{Since: now(), Why: why, Unseen: r.State == record.Bound && !seen}
		default:
			r.Orphan = record.Orphan{Since: now(), Why: why, Unseen: r.Orphan.Unseen}
		}
		return r, p.putFirst(c, "orphan.record", r)
	})
}
