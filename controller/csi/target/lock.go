package target

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lockTimeout is how long a call waits for another call for the same target.
const lockTimeout = 10 * time.Second

// locks gives each target to one call at a time. A call does not wait forever: the
// call before it may be on a disk that hangs. The zero value is ready.
type locks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the target is free; guarded by mu
}

// lock waits for the target and returns the function that frees it. The error has
// the code that the CSI spec gives to a pending operation.
func (l *locks) lock(path string) (unlock func(), err error) {
	var timeout <-chan time.Time
	for {
		busy := l.take(path)
		if busy == nil {
			return func() { l.free(path) }, nil
		}
		if timeout == nil {
			timeout = time.After(lockTimeout)
		}
		select {
		case <-busy:
		case <-timeout:
			return nil, status.Errorf(codes.Aborted, "another call for %q has not ended for %s; try again", path, lockTimeout)
		}
	}
}

// take takes the target if it is free and returns nil. Otherwise it returns a channel
// that is closed when the target is free.
func (l *locks) take(path string) (busy chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy = l.held[path]; busy != nil {
		return busy
	}
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	l.held[path] = make(chan struct{})
	return nil
}

func (l *locks) free(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[path])
	delete(l.held, path)
}
