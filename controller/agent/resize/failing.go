package resize

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// retryFirst and retryLast bound the pause before the next attempt, which
	// doubles. A change of space or readiness ends it.
	retryFirst = 30 * time.Second
	retryLast  = 5 * time.Minute
)

// failing holds the claims whose volumes could not grow. Without it the status that a
// refusal writes would cause the next attempt.
type failing struct {
	mu     sync.Mutex
	claims map[string]failure // by key
}

type failure struct {
	uid       types.UID
	requested int64 // by the claim, in bytes
	pool      *volume.Pool
	// missing is the size that could not be allocated, 0 if space is not the cause.
	missing int64
	// notReady is set if the cause is that the pool was not ready.
	notReady bool
	pause    time.Duration
	until    time.Time
}

func newFailing() *failing { return &failing{claims: map[string]failure{}} }

// add adds a failure and returns the pause before the next attempt. The pause grows as
// long as the claim's request stays the same.
func (f *failing) add(key string, now failure) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before, ok := f.claims[key]; ok && before.uid == now.uid && before.requested == now.requested {
		now.pause = before.pause
	}
	now.pause = sleep.Doubled(now.pause, retryFirst, retryLast)
	now.until = time.Now().Add(now.pause)
	f.claims[key] = now
	return now.pause
}

// waits reports whether the claim failed with this request, and its pause is not over.
func (f *failing) waits(key string, uid types.UID, requested int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.claims[key]
	return ok && at.uid == uid && at.requested == requested && time.Now().Before(at.until)
}

func (f *failing) drop(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.claims, key)
}

// possible ends the pause of the claims whose cause may be gone, and returns their
// keys. It accesses the disk without holding the lock.
func (f *failing) possible() []string {
	f.mu.Lock()
	all := maps.Clone(f.claims)
	f.mu.Unlock()
	var keys []string
	for key, at := range all {
		if !at.over() {
			continue
		}
		keys = append(keys, key)
		f.mu.Lock()
		if now, ok := f.claims[key]; ok {
			now.until = time.Time{}
			f.claims[key] = now
		}
		f.mu.Unlock()
	}
	return keys
}

// over reports whether the cause may be gone.
func (f failure) over() bool {
	switch {
	case f.missing > 0:
		space, err := f.pool.Space()
		return err == nil && space.Obtainable() >= f.missing
	case f.notReady:
		return f.pool.Ready() == nil
	}
	return false
}
