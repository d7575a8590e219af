package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// CloneJob is a job of a pool that makes a clone, as it was at one moment.
type CloneJob struct {
	Spec  CloneSpec
	Began time.Time
	// Bytes are those written so far, because they could not be shared, and Entries the files and
	// directories visited so far.
	Bytes, Entries int64
	// Waits is true while the job waits for other copies in the pool.
	Waits bool
	// LeftOut describes what the copy lacks, such as device nodes; "" if nothing.
	LeftOut string
	// Ended is closed when the job has ended. Err is its error, nil before.
	Ended <-chan struct{}
	Err   error
}

func (s CloneSpec) compare(other CloneSpec) int { return strings.Compare(s.Name, other.Name) }

// cloneJob makes one clone. The job alone uses the fields that no lock guards, until ended is closed.
type cloneJob struct {
	spec   CloneSpec
	id     string // the clone's name in the trash, which names the staged directory, too
	source int    // the source's directory
	began  time.Time

	exclusive bool  // the copy is right only if nothing uses the source meanwhile
	oneFile   bool  // something uses it, and only one file may have data
	uses      int64 // what the kernel counts for the copy, once it is made
	bytes     bool  // all data is written, because this filesystem shares no blocks with the source's

	ctx    context.Context //nolint:containedctx // its end is that of the job
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed at the end; then the following fields may be read

	volume   Volume
	err      error
	panicked any

	mu      sync.Mutex // guards what follows
	written int64
	entries int64
	waits   bool
	copied  bool // the source is not read any more
	leftOut string
	endedAt time.Time
}

func newCloneJob(s CloneSpec, source int) *cloneJob {
	j := &cloneJob{spec: s, source: source, began: time.Now(), ended: make(chan struct{})}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	return j
}

// close gives the source back.
func (j *cloneJob) close() {
	j.cancel(errEnded)
	j.spec.From.clones.leave(j)
	unix.Close(j.source)
}

func (j *cloneJob) hasEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

func (j *cloneJob) show() CloneJob {
	j.mu.Lock()
	defer j.mu.Unlock()
	job := CloneJob{Spec: j.spec, Began: j.began, Bytes: j.written, Entries: j.entries, Waits: j.waits, LeftOut: j.leftOut,
		Ended: j.ended}
	if j.hasEnded() {
		job.Err = j.err
	}
	return job
}

func (j *cloneJob) progress() string {
	now := j.show()
	if now.Waits {
		return "it waits for other copies in the pool"
	}
	return fmt.Sprintf("%d files and directories so far, and %d bytes written", now.Entries, now.Bytes)
}

// cloneJobs are the jobs that write to a pool, and those that read from it.
type cloneJobs struct {
	shares, writes bounded.Turns // one job at a time that shares blocks, and one that writes bytes

	mu      sync.Mutex // guards what follows
	jobs    map[string]*cloneJob
	readers map[*cloneJob]bool
}

func newCloneJobs() *cloneJobs {
	return &cloneJobs{shares: bounded.OneAtATime(), writes: bounded.OneAtATime(), jobs: map[string]*cloneJob{},
		readers: map[*cloneJob]bool{}}
}

func (s *cloneJobs) get(name string) (*cloneJob, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, ok := s.jobs[name]
	return j, ok
}

func (s *cloneJobs) all() (all []*cloneJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		all = append(all, j)
	}
	return all
}

func (s *cloneJobs) add(j *cloneJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[j.spec.Name] = j
}

func (s *cloneJobs) remove(j *cloneJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[j.spec.Name] == j {
		delete(s.jobs, j.spec.Name)
	}
}

// forget removes jobs whose result no caller has asked for.
func (s *cloneJobs) forget() {
	for _, j := range s.all() {
		j.mu.Lock()
		old := !j.endedAt.IsZero() && time.Since(j.endedAt) > time.Hour
		j.mu.Unlock()
		if old {
			s.remove(j)
		}
	}
}

// running returns an ErrCloning while a job makes the volume.
func (s *cloneJobs) running(name string) error {
	if j, ok := s.get(name); ok && !j.hasEnded() {
		return fmt.Errorf("%w: %s", ErrCloning, j.progress())
	}
	return nil
}

// stages reports whether a job has that ID.
func (s *cloneJobs) stages(id string) bool {
	for _, j := range s.all() {
		if j.id == id && !j.hasEnded() {
			return true
		}
	}
	return false
}

func (s *cloneJobs) read(j *cloneJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers[j] = true
}

func (s *cloneJobs) leave(j *cloneJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, j)
}

// readersOf returns the jobs that read a volume of the pool.
func (s *cloneJobs) readersOf(source string) (all []*cloneJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for j := range s.readers {
		if j.spec.Source.Volume == source {
			all = append(all, j)
		}
	}
	return all
}

// unread returns an ErrInUse while a job reads the volume.
func (s *cloneJobs) unread(name string) error {
	if all := s.readersOf(name); len(all) > 0 {
		return fmt.Errorf("%w: volume %s is being made as a copy of it", ErrInUse, all[0].spec.Name)
	}
	return nil
}

// yield ends the copies of a volume that are right only while nothing uses it.
func (s *cloneJobs) yield(source string) {
	for _, j := range s.disturbed(source) {
		j.cancel(ErrYielded)
	}
}

// disturbed returns the jobs that read a volume and would be wrong once something uses it.
func (s *cloneJobs) disturbed(source string) (all []*cloneJob) {
	for _, j := range s.readersOf(source) {
		j.mu.Lock()
		if j.exclusive && !j.copied {
			all = append(all, j)
		}
		j.mu.Unlock()
	}
	return all
}

// shareWait is how long MakeWay waits for a copy that shares blocks.
const shareWait = 5 * time.Second

// MakeWay makes way for a pod that is about to use a volume. It does nothing for a volume of which no
// clone is made, or only one that may be made of a volume in use. It waits up to five seconds for a
// copy that shares its blocks, which is mostly done by then. It ends any other, whose Clone returns
// ErrYielded: the caller begins it again once the volume is not in use. The caller calls Pin
// afterwards, which ends what has begun meanwhile.
func (p *Pool) MakeWay(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	for _, j := range p.clones.disturbed(name) {
		if j.bytes {
			j.cancel(ErrYielded)
			continue
		}
		select {
		case <-j.ended:
		case <-ctx.Done():
			j.cancel(ErrYielded)
		}
	}
}

// runClone makes the copy. No caller waits for it: its result is in the job.
func (p *Pool) runClone(j *cloneJob) {
	const op = "clone volume"
	defer func() {
		j.panicked = recover()
		j.close()
		p.ledger.SetStaged(j.spec.Name, 0)
		j.mu.Lock()
		j.endedAt = time.Now()
		j.mu.Unlock()
		close(j.ended)
		if j.panicked == nil && j.err == nil {
			p.clones.remove(j)
		}
	}()
	err := j.spec.From.raiseSource(op, j)
	if err == nil {
		err = p.dir.Job(j.ctx, func(ctx context.Context, d *pooldir.Dir) error { return p.copyClone(ctx, d, j) })
	}
	if err == nil {
		err = j.spec.From.finishSource(op, j)
	}
	if err == nil {
		j.volume, err = p.landClone(op, j)
	}
	if err == nil {
		return
	}
	if why := context.Cause(j.ctx); why != nil && errors.Is(err, context.Canceled) {
		err = why
	}
	j.err = errors.Join(unwrapped(err), unwrapped(p.abandonClone(op, j)))
}

// unwrapped returns an error without the operation and name, which the caller adds.
func unwrapped(err error) error {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
