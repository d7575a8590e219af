package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
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
	spec  CloneSpec
	id    string // the clone's name in the trash, which names the staged directory, too
	began time.Time
	// taken is set once it is decided whether the job begins, or its caller has given it up.
	taken atomic.Bool

	exclusive bool           // the copy is right only if nothing uses the source meanwhile
	oneFile   bool           // something uses it, and only one file may have data
	snapshot  bool           // the copy is a snapshot of the source; of is the rest of what decides that
	of        sourceAt       // the source as it was found
	before    *record.Source // what the source is a copy of
	uses      int64          // what the kernel counts for the copy, once it is made
	quotaID   uint64         // of a snapshot, once it is made
	into      *pooldir.Dir   // the opening of the pool in which it is made
	bytes     bool           // all data is written, because this filesystem shares no blocks with the source's

	ctx    context.Context //nolint:containedctx // its end is that of the job
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed at the end; then the following fields may be read

	volume   Volume
	err      error
	panicked any

	mu      sync.Mutex // guards what follows
	source  int        // the source's directory; -1 before it is open, and at the end
	closed  bool       // the source is not to be opened any more
	written int64
	entries int64
	waits   bool
	copied  bool // the source is not read any more
	leftOut string
	endedAt time.Time
}

func newCloneJob(s CloneSpec) *cloneJob {
	j := &cloneJob{spec: s, source: -1, began: time.Now(), ended: make(chan struct{})}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	return j
}

// recorded returns the source for the record of the copy.
func (j *cloneJob) recorded() *record.Source {
	s := *j.spec.Source
	s.Before = j.before
	return &s
}

// makes reports whether the job makes what the spec asks for, on the same conditions.
func (j *cloneJob) makes(s CloneSpec) bool {
	return j.spec.Source.Equal(s.Source) && j.spec.Owner.UID == s.Owner.UID && j.spec.Bytes == s.Bytes &&
		j.spec.Consistency == s.Consistency && j.spec.CopyBytes == s.CopyBytes
}

// Exceeds reports whether the spec permits more than a class that permits a copy to be fuzzy, or to be
// made byte by byte.
func (s CloneSpec) Exceeds(fuzzy, copyBytes bool) bool {
	return s.Consistency == ConsistencyFuzzy && !fuzzy || s.CopyBytes && !copyBytes
}

// open gives the job the directory of its source: from then on the source is not deleted. It returns
// false, and closes the directory, if the job was closed.
func (j *cloneJob) open(source int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		unix.Close(source)
		return false
	}
	j.source = source
	j.spec.From.clones.read(j)
	return true
}

// close gives the source back.
func (j *cloneJob) close() {
	j.cancel(errEnded)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.spec.From.clones.leave(j)
	if j.source >= 0 {
		unix.Close(j.source)
		j.source = -1
	}
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
		if j.spec.Ended != nil {
			j.spec.Ended(j.show())
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
	if err = unwrapped(err); fault.IsFull(err) { // which of the two is full the kernel does not always say
		err = fmt.Errorf("%w: free space on the disk, or request more than the source has: the copy may take more", err)
	}
	j.err = errors.Join(err, unwrapped(p.abandonClone(op, j)))
}

// unwrapped returns an error without the operation and name, which the caller adds.
func unwrapped(err error) error {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
