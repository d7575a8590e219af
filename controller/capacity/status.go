package capacity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// status is why objects cannot be published, a reason for each thing that is
// done.
type status struct {
	mu      sync.Mutex
	reasons map[string]error
}

// start is the reason until the first pass.
func (s *status) start() {
	s.reasons = map[string]error{"publish": errors.New("starting")}
}

// set notes that something succeeded (nil) or why not, and logs what is new of
// it. What fails because the context ended is nothing.
func (s *status) set(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	err = words(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.reasons[what]
	log := klog.FromContext(ctx)
	switch {
	case err == nil && before == nil:
	case err == nil:
		delete(s.reasons, what)
		log.Info("The scheduler learns what this node can promise", "step", what)
	default:
		s.reasons[what] = err
		if before == nil || before.Error() != err.Error() {
			log.Error(err, "The scheduler cannot learn what this node can promise; trying again", "step", what)
		}
	}
}

// words are the same for the same reason, and say what to do. The URL of a
// request that had no answer is left out: a part of it is chosen by chance.
func words(err error) error {
	var unanswered *url.Error
	switch {
	case errors.As(err, &unanswered):
		return fmt.Errorf("the API server does not answer: %w", unanswered.Err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; apply the Role and the ClusterRole of this version", err)
	}
	return err
}

func (s *status) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []error
	for _, what := range slices.Sorted(maps.Keys(s.reasons)) {
		all = append(all, fmt.Errorf("%s: %w", what, s.reasons[what]))
	}
	return errors.Join(all...)
}
