package claims

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// retryInterval is after how long a refused claim is retried without a call of Claims.Retry.
var retryInterval = timing.Scaled(10 * time.Second)

// retries keeps the temporarily refused claims. It passes them to retry when space
// becomes available, when the pool is ready, and every retryInterval.
type retries struct {
	retry func(...types.UID)

	mu     sync.Mutex
	claims map[types.UID]struct{}
	wake   chan struct{}
}

func newRetries(retry func(...types.UID)) *retries {
	return &retries{retry: retry, claims: map[types.UID]struct{}{}, wake: make(chan struct{}, 1)}
}

func (r *retries) add(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[uid] = struct{}{}
}

// run retries claims until the context ends. It forgets each claim first; the caller
// adds a claim again if it is refused again.
func (r *retries) run(ctx context.Context) {
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.wake:
		}
		r.retry(r.take()...)
	}
}

func (r *retries) take() []types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	uids := slices.Collect(maps.Keys(r.claims))
	clear(r.claims)
	return uids
}
