package provision

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
)

// refusedLast is the longest pause before a PV is sent again that the API server refused until
// something else changes, such as a webhook.
const refusedLast = 5 * time.Minute

// saving is the rate limiter of the PVs that the library could not save and sends again, by name. It
// knows which of them the API server refused.
type saving struct {
	workqueue.TypedRateLimiter[any] // of all others

	late    workqueue.TypedRateLimiter[any]
	refused *lru.Cache
}

func newSaving() *saving {
	return &saving{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[any](retryFirst, retryLast),
		late:             workqueue.NewTypedItemExponentialFailureRateLimiter[any](retryFirst, refusedLast),
		refused:          lru.New(claims.RememberMost),
	}
}

// note records whether the API server refused a PV in a way that only a change elsewhere ends.
func (s *saving) note(pv string, refused bool) {
	if refused {
		s.refused.Add(pv, true)
	} else {
		s.refused.Remove(pv)
	}
}

// waits reports whether the library is to send the PV again: its claim is not provisioned meanwhile.
func (s *saving) waits(pv string) bool {
	_, refused := s.refused.Get(pv)
	return refused
}

// When returns the pause before the next try.
func (s *saving) When(item any) time.Duration {
	if name, ok := item.(string); ok && s.waits(name) {
		return s.late.When(item)
	}
	return s.TypedRateLimiter.When(item)
}

// Forget ends the growth of the pauses.
func (s *saving) Forget(item any) {
	s.late.Forget(item)
	s.TypedRateLimiter.Forget(item)
}
