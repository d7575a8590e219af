package volume

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

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
		if (j.id == id || j.id+record.SnapshotSuffix == id) && !j.hasEnded() {
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

// endReaders ends the jobs that read from the pool, and waits for them. Those that other pools have may
// not read on: another process may open the pool, and let a pod write to the source. The pool is closed,
// so no job begins.
func (s *cloneJobs) endReaders(patience time.Duration) error {
	for begin := time.Now(); ; time.Sleep(readersCheck) {
		s.mu.Lock()
		all := slices.Collect(maps.Keys(s.readers))
		s.mu.Unlock()
		for _, j := range all {
			j.cancel(errSourceClosed)
		}
		switch {
		case len(all) == 0:
			return nil
		case time.Since(begin) > patience:
			return fmt.Errorf("%w: volume %s is still being made as a copy of one in it", ErrNotReady, all[0].spec.Name)
		}
	}
}

// readersCheck is how often endReaders checks whether they have ended.
const readersCheck = 10 * time.Millisecond

var errSourceClosed = fmt.Errorf("%w: the pool of its source was closed", ErrNotReady)

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
