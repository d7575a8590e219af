package orphans

import (
	"errors"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// watchSaved is how much of the time for which an orphan was watched may be lost
// with the process, where orphans are removed. Looks that follow each other
// closely do not all write.
const watchSaved = 10 * time.Minute

// sighting is what this process knows of an orphan's note.
type sighting struct {
	since time.Time // the note's, which tells it from one before
	// from is when the process first knew the note, or last added to it. The
	// monotonic clock that it carries goes on where the time of day jumps.
	from time.Time
}

// note writes on a volume's record why it is an orphan, "" where it is none, and
// for how long agents have watched it, up to the grace period. It returns the
// record, without a name where the volume is gone.
func (o *Checker) note(at place, r volume.Record, why string) (volume.Record, error) {
	passed := o.pending(at, r)
	enough := r.Orphan.Watched()+passed >= o.Grace
	if r.Orphan.Watched() >= o.Grace || !enough && passed < watchSaved {
		passed = 0
	}
	if why == r.Orphan.Why && passed < time.Second {
		o.watch(at, r, false)
		return r, nil
	}
	noted, err := at.pool.NoteOrphan(at.name, why, passed)
	switch {
	case errors.Is(err, volume.ErrNotFound):
		noted, err = volume.Record{}, nil // it was deleted meanwhile
	case err != nil:
		return noted, err
	}
	o.watch(at, noted, true)
	return noted, err
}

// pending is how long this process has watched an orphan, as far as its record
// does not say so yet.
func (o *Checker) pending(at place, r volume.Record) time.Duration {
	if w, ok := o.watching[at]; ok && w.since.Equal(r.Orphan.Since) {
		return time.Since(w.from)
	}
	return 0
}

// watch begins to watch an orphan, from anew where its record was just written.
// What is no orphan is not watched.
func (o *Checker) watch(at place, r volume.Record, written bool) {
	if r.Orphan.Why == "" {
		delete(o.watching, at)
		return
	}
	if w, ok := o.watching[at]; written || !ok || !w.since.Equal(r.Orphan.Since) {
		o.watching[at] = sighting{r.Orphan.Since, time.Now()}
	}
}

// rest is how long an orphan still has, by both clocks.
func (o *Checker) rest(at place, r volume.Record) time.Duration {
	return max(time.Until(r.Orphan.Since.Add(o.Grace)), o.Grace-r.Orphan.Watched()-o.pending(at, r))
}
