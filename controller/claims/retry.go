package claims

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// LookAgain is how often a claim that was refused for now is tried again where
// nothing told us that the answer changed.
const LookAgain = 10 * time.Second

// waiting keeps the claims that were refused for now, and sends them down the
// feed again when space comes back, when the pool is ready, and from time to
// time.
type waiting struct {
	retry func(...types.UID)

	mu     sync.Mutex
	claims map[types.UID]struct{}
	wake   chan struct{}
}

func newWaiting(retry func(...types.UID)) *waiting {
	return &waiting{retry: retry, claims: map[types.UID]struct{}{}, wake: make(chan struct{}, 1)}
}

func (w *waiting) add(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims[uid] = struct{}{}
}

// run sends waiting claims down the feed until the context ends. A claim that
// is refused again is added again.
func (w *waiting) run(ctx context.Context) {
	tick := time.NewTicker(LookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.wake:
		}
		w.retry(w.take()...)
	}
}

func (w *waiting) take() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	uids := make([]types.UID, 0, len(w.claims))
	for uid := range w.claims {
		uids = append(uids, uid)
	}
	clear(w.claims)
	return uids
}
