package volume

import (
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
)

// NoteOrphan writes on the volume's record that it is an orphan and why, and
// returns the record. The note outlives the process; a note for the same reason
// keeps its time, and adds watched, to the second, to the time for which it was
// watched. An empty why takes the note back, as Bind does. It does nothing where
// the record says all that already.
//
// The error is ErrNotFound where there is no volume.
func (p *Pool) NoteOrphan(name, why string, watched time.Duration) (Record, error) {
	var noted Record
	err := p.on("note orphan", name, func(h *handle) error {
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
		if err := p.put(h, r); err != nil {
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

// Unrecorded is a directory of the pool that no record knows.
type Unrecorded struct {
	Name string
	// InUse is true where something is mounted on it, in it or from it.
	InUse bool
}

// Unrecorded returns the directories of the pool that no record knows, by name.
// They are not ours: nothing ever touches them. Other pools inside this one are
// not among them, nor are names that no volume can have.
func (p *Pool) Unrecorded() ([]Unrecorded, error) {
	const op = "list what has no record"
	var all []Unrecorded
	err := p.visit(op, func(h *handle) error {
		names, err := h.Children()
		if err != nil {
			return err
		}
		for _, name := range names {
			if p.checkName(name) != nil || p.records.Has(name) {
				continue
			}
			h.call.Progress()
			u, ok, err := p.unrecorded(h, name)
			if err != nil {
				return err
			}
			if ok {
				all = append(all, u)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

// HasDirectory reports whether the pool has a directory of that name, whatever
// the records say.
func (p *Pool) HasDirectory(name string) (bool, error) {
	const op = "look at directory"
	if err := p.checkName(name); err != nil {
		return false, fault.Failed(op, name, err)
	}
	there := false
	err := p.enter(op, func(h *handle) (err error) {
		there, err = file.IsDir(h.Base, name)
		return err
	})
	return err == nil && there, fault.Failed(op, name, err)
}

// unrecorded looks again while nobody works on the name: what was listed may
// have been a volume on its way out.
func (p *Pool) unrecorded(h *handle, name string) (u Unrecorded, ok bool, err error) {
	unlock, err := p.names.Lock(h.call, name)
	if err != nil {
		return u, false, err
	}
	defer unlock()
	if p.records.Has(name) || h.HoldsPool(name) {
		return u, false, nil
	}
	if ok, err = file.IsDir(h.Base, name); !ok || err != nil {
		return u, false, err
	}
	points, err := h.MountPoints(name)
	return Unrecorded{Name: name, InUse: len(points) > 0}, true, err
}
