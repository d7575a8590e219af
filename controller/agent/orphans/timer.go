package orphans

import (
	"errors"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// saveEvery is how much of an orphan's running time is saved at once. A process that
// ends loses at most that much, and checks in quick succession do not all write.
const saveEvery = 10 * time.Minute

// timer measures for how long this process has run since an orphan's time was saved.
type timer struct {
	since time.Time // the start in the orphan's record, which identifies it
	// from is when the process read or saved the record. Its monotonic clock is
	// right even if the system's clock jumps.
	from time.Time
}

// note writes to a volume's record why it is an orphan, "" if it is not, and for how
// long agents have run since then, up to the grace period. It returns the record,
// without a name if the volume is gone.
func (o *Checker) note(at place, r record.Record, why string) (record.Record, error) {
	passed := o.unsaved(at, r)
	enough := r.Orphan.Watched()+passed >= o.Grace
	if r.Orphan.Watched() >= o.Grace || !enough && passed < saveEvery {
		passed = 0
	}
	if why == r.Orphan.Why && passed < time.Second {
		o.start(at, r, false)
		return r, nil
	}
	noted, err := at.pool.NoteOrphan(at.name, why, passed)
	switch {
	case errors.Is(err, volume.ErrNotFound):
		noted, err = record.Record{}, nil // deleted since it was listed
	case err != nil:
		return noted, err
	}
	o.start(at, noted, true)
	return noted, err
}

// unsaved returns the running time of an orphan that is not in its record yet.
func (o *Checker) unsaved(at place, r record.Record) time.Duration {
	if t, ok := o.timers[at]; ok && t.since.Equal(r.Orphan.Since) {
		return time.Since(t.from)
	}
	return 0
}

// start starts the timer of an orphan. A running timer is restarted only after its
// time was saved. The timer of a volume that is not an orphan is deleted.
func (o *Checker) start(at place, r record.Record, saved bool) {
	if r.Orphan.Why == "" {
		delete(o.timers, at)
		return
	}
	if t, ok := o.timers[at]; saved || !ok || !t.since.Equal(r.Orphan.Since) {
		o.timers[at] = timer{r.Orphan.Since, time.Now()}
	}
}

// remaining returns the rest of an orphan's grace period, by both clocks.
func (o *Checker) remaining(at place, r record.Record) time.Duration {
	return max(time.Until(r.Orphan.Since.Add(o.Grace)), o.Grace-r.Orphan.Watched()-o.unsaved(at, r))
}
