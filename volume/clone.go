package volume

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/volumequota"
)

// Consistency is what a copy of a volume in use may be. A copy of a volume that nothing uses is exact.
type Consistency string

const (
	// ConsistencyCrash permits only what a power cut at one moment could have left.
	ConsistencyCrash Consistency = "crash"
	// ConsistencyFuzzy also permits files of different moments. A snapshot never has them.
	ConsistencyFuzzy Consistency = "fuzzy"
)

// CloneSpec describes a volume that Clone makes.
type CloneSpec struct {
	// Spec is as for Create. Source is required: record.SourceOf the source's record, as the caller
	// found it, with the namespace and UID of the claim that it means.
	Spec
	// From is the pool that has the source; nil is the pool of the clone.
	From *Pool
	// Consistency is "" for ConsistencyCrash.
	Consistency Consistency
	// CopyBytes permits to write data that cannot share its blocks with the source's.
	CopyBytes bool
	// Ended is called once the job has ended that this spec began, if it is not nil. It must not block.
	Ended func(CloneJob)
}

// NewCloneSpec returns the spec of a copy that a class permits to be fuzzy, or to be made byte by byte.
func NewCloneSpec(s Spec, fuzzy, copyBytes bool) CloneSpec {
	spec := CloneSpec{Spec: s, CopyBytes: copyBytes}
	if fuzzy {
		spec.Consistency = ConsistencyFuzzy
	}
	return spec
}

// cloneWait is how long Clone waits for a copy before it returns ErrCloning.
const cloneWait = 2 * time.Second

// Clone makes the volume as a copy of another one, or returns it if it exists for the same claim with
// the same size and source, so callers may retry. It has the source's files, and owner, mode, ACL and
// times of the source's directory; s.Mode, s.UID and s.GID have no effect. Once Clone returned nil,
// the volume survives a power cut, and the source is not needed any more.
//
// The copy is a job of the pool, which ends with the process or with Close; what a killed process
// leaves is removed. Clone waits two seconds for the job, and returns ErrCloning while it is under
// way: CloneJob shows how far it is and when it ended, and the next Clone returns the result. If the
// copy fails, one Clone returns its error, and the next begins another job. One for another source, claim
// or size, or on other conditions, begins it at once.
//
// While a job reads the source, its deletion and the migration of its PV return ErrInUse. The job
// compares the source's record with s.Source when it begins and before it ends.
//
// Errors other than those of Create:
//
//   - ErrCloning: the copy is under way.
//   - ErrSource: the source cannot be copied now; the text says why and what to do. Beside it are
//     ErrNotFound (no such volume), ErrConflict (it is another volume or another claim's by now, of
//     another cluster, or adopted without a claim), ErrInUse (something uses it, and the copy would not
//     be what s.Consistency asks for), ErrMigrating, ErrSetAside or ErrDamaged. ErrUnshared: bytes
//     would have to be written, and s.CopyBytes is false.
//   - ErrInvalid: also for fewer bytes than the source has.
//   - ErrConflict without ErrSource: the name is taken, also by a copy of another source.
//   - ErrYielded: a pod began to use the source.
func (p *Pool) Clone(s CloneSpec) (Volume, error) {
	const op = "clone volume"
	if s.From == nil {
		s.From = p
	}
	if err := p.checkClone(&s); err != nil {
		return Volume{}, fault.Failed(op, s.Name, err)
	}
	if j, ok := p.clones.get(s.Name); ok {
		if !j.hasEnded() || j.panicked != nil || j.makes(s) {
			return p.cloneResult(op, j, s)
		}
		p.clones.remove(j) // it failed, and its caller asks for something else now
	}
	v, there, err := p.cloned(op, s)
	if there || err != nil {
		return v, err
	}
	j := newCloneJob(s)
	defer func() {
		// A call that the disk delays may go on after its error. It begins no job then.
		if j.taken.CompareAndSwap(false, true) {
			j.close()
		}
	}()
	if err := s.From.openSource(op, j); err != nil {
		return Volume{}, err
	}
	if err := p.beginClone(op, j); err != nil {
		return Volume{}, err
	}
	return p.cloneResult(op, j, s)
}

func (p *Pool) checkClone(s *CloneSpec) error {
	switch {
	case s.Source == nil:
		return fmt.Errorf("%w: a copy needs a source", ErrInvalid)
	case s.Ephemeral:
		return fmt.Errorf("%w: an ephemeral volume begins empty", ErrInvalid)
	case s.Source.Volume == s.Name && s.From == p:
		return fmt.Errorf("%w: a volume cannot be a copy of itself", ErrInvalid)
	}
	switch s.Consistency {
	case "":
		s.Consistency = ConsistencyCrash
	case ConsistencyCrash, ConsistencyFuzzy:
	default:
		return fmt.Errorf("%w: the consistency %q is not known; there are %s and %s", ErrInvalid, string(s.Consistency),
			ConsistencyCrash, ConsistencyFuzzy)
	}
	return p.checkSpec(s.Spec)
}

// cloned returns the clone if it is in place. It removes the record of one whose directory is missing
// and that no PV names.
func (p *Pool) cloned(op string, s CloneSpec) (v Volume, there bool, err error) {
	type found struct {
		Volume
		there bool
	}
	f, err := resultOf(p.withAnyVolume, op, s.Name, func(c *call) (found, error) {
		known, ok := p.records.Get(s.Name)
		switch {
		case !ok:
			return found{}, nil
		case known.InTrash():
			return found{}, fmt.Errorf("%w: %w", ErrConflict, ErrSetAside)
		}
		there, err := p.same(c, known, s.Spec)
		if err != nil {
			return found{}, err
		}
		if !there {
			return found{}, p.dropGone(c, s.Name)
		}
		return found{p.volume(c, known, false), true}, nil
	})
	return f.Volume, f.there, err
}

// beginClone allocates and stages the clone, and starts the job. It leaves nothing on error.
func (p *Pool) beginClone(op string, j *cloneJob) error {
	s := j.spec
	return p.withAnyVolume(op, s.Name, func(c *call) error {
		if p.records.Has(s.Name) { // another call made it meanwhile
			return fmt.Errorf("%w: its record was made meanwhile", ErrCloning)
		}
		if err := volumequota.Check(c.quotas.Support, s.Quota, s.Inodes); err != nil {
			return err
		}
		if err := absent(c, s.Name); err != nil {
			return err
		}
		if err := p.checkShares(c, j); err != nil {
			return err
		}
		release, err := p.allocate(c, space.Request{Name: s.Name, Bytes: s.Bytes, Wanted: s.Bytes}, "")
		if err != nil {
			return err
		}
		defer release()
		if err := c.StillWanted(); err != nil {
			return err
		}
		r := p.newRecord(s.Spec, record.Creating)
		r.Source = j.recorded()
		j.id = r.Trash
		p.clones.add(j) // first: Recover leaves the staged directory of a job alone
		begins := false
		defer func() {
			if !begins {
				p.clones.remove(j)
			}
		}()
		if err := p.stageClone(c, j, r); err != nil {
			return err
		}
		if begins = j.taken.CompareAndSwap(false, true); !begins {
			p.unstageClone(c, r)
			return fmt.Errorf("%w: its caller has left", ErrNotReady)
		}
		go p.runClone(j)
		return nil
	})
}

// cloneResult waits a moment for the job, and returns its result.
func (p *Pool) cloneResult(op string, j *cloneJob, s CloneSpec) (Volume, error) {
	if !j.makes(s) {
		return Volume{}, fault.Failed(op, s.Name, fmt.Errorf("%w: %s with %d bytes for %v is under way", ErrConflict,
			origin(j.spec.Source), j.spec.Bytes, j.spec.Owner))
	}
	timer := time.NewTimer(cloneWait)
	defer timer.Stop()
	select {
	case <-j.ended:
	case <-timer.C:
		return Volume{}, fault.Failed(op, s.Name, fmt.Errorf("%w: %s", ErrCloning, j.progress()))
	}
	p.clones.remove(j)
	if j.panicked != nil {
		panic(j.panicked)
	}
	return j.volume, fault.Failed(op, s.Name, j.err)
}

// CloneJob returns the job that makes a clone. ok is false if there is none. A job that failed is there
// until Clone has returned its error, or an hour long.
func (p *Pool) CloneJob(name string) (job CloneJob, ok bool) {
	j, ok := p.clones.get(name)
	if !ok {
		return CloneJob{}, false
	}
	return j.show(), true
}

// CloneJobs returns the jobs of the pool, by the names of their clones.
func (p *Pool) CloneJobs() (all []CloneJob) {
	for _, j := range p.clones.all() {
		all = append(all, j.show())
	}
	slices.SortFunc(all, func(a, b CloneJob) int { return a.Spec.compare(b.Spec) })
	return all
}

// EndClone ends the job that makes a clone, for a caller whose claim is gone, and removes what it made.
// It does nothing if there is no job. It waits for nothing: the job ends at its next step.
func (p *Pool) EndClone(name string) {
	if j, ok := p.clones.get(name); ok {
		j.cancel(errEnded)
		if j.hasEnded() {
			p.clones.remove(j)
		}
	}
}

var errEnded = errors.New("its caller ended it")
