package csi

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// busyWithin is how long a call waits for another one on the same target.
const busyWithin = 10 * time.Second

// targets lets the calls for one target wait for each other, for a while: a call
// on a disk that hangs may have it for ever. The zero value is ready.
type targets struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when it is free; guarded by mu
}

// lock waits for the target and returns what gives it back. The error is that of
// the spec for an operation that is pending.
func (t *targets) lock(path string) (unlock func(), err error) {
	var late <-chan time.Time
	for {
		busy := t.take(path)
		if busy == nil {
			return func() { t.give(path) }, nil
		}
		if late == nil {
			late = time.After(busyWithin)
		}
		select {
		case <-busy:
		case <-late:
			return nil, status.Errorf(codes.Aborted, "another call for %q has not ended for %s; try again", path, busyWithin)
		}
	}
}

// take returns what is closed when the target is free, nil where it was.
func (t *targets) take(path string) (busy chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if busy = t.held[path]; busy != nil {
		return busy
	}
	if t.held == nil {
		t.held = map[string]chan struct{}{}
	}
	t.held[path] = make(chan struct{})
	return nil
}

func (t *targets) give(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.held[path])
	delete(t.held, path)
}
