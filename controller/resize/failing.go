package resize

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// againFirst and againLast bound the pause before a volume that cannot grow
	// is tried again where nothing told us that the answer changed. It doubles.
	againFirst = 30 * time.Second
	againLast  = 5 * time.Minute
)

// failing are the claims whose volumes could not grow, so that what a refusal
// itself changes, the claim's status above all, is no reason to try again.
type failing struct {
	mu     sync.Mutex
	claims map[string]failure // by key
}

type failure struct {
	uid    types.UID
	wanted int64 // bytes that the claim asks for
	pool   *volume.Pool
	// missing bytes could not be promised; 0: that is not the reason.
	missing int64
	// away: the pool was not ready.
	away  bool
	pause time.Duration
	until time.Time
}

func newFailing() *failing { return &failing{claims: map[string]failure{}} }

// add notes a failure, and returns how long to wait. The pause grows while the
// claim asks for the same.
func (f *failing) add(key string, now failure) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now.pause = againFirst
	if before, ok := f.claims[key]; ok && before.uid == now.uid && before.wanted == now.wanted {
		now.pause = min(2*before.pause, againLast)
	}
	now.until = time.Now().Add(now.pause)
	f.claims[key] = now
	return now.pause
}

// waits reports whether the claim failed with this request, and its pause is
// not over.
func (f *failing) waits(key string, uid types.UID, wanted int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.claims[key]
	return ok && at.uid == uid && at.wanted == wanted && time.Now().Before(at.until)
}

func (f *failing) drop(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.claims, key)
}

// possible ends the pause of the claims whose reason may be gone, and returns
// their keys. It asks the disk, with no lock held.
func (f *failing) possible() []string {
	f.mu.Lock()
	all := make(map[string]failure, len(f.claims))
	for key, at := range f.claims {
		all[key] = at
	}
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

// over reports whether the reason may be gone.
func (f failure) over() bool {
	switch {
	case f.missing > 0:
		space, err := f.pool.Space()
		return err == nil && space.Available >= f.missing
	case f.away:
		return f.pool.Ready() == nil
	}
	return false
}
