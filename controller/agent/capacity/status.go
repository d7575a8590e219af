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

// status holds the steps of publishing that fail.
type status struct {
	mu      sync.Mutex
	reasons map[string]error // by step; guarded by mu
}

func (s *status) start() {
	s.reasons = map[string]error{"publish": errors.New("starting")}
}

// set sets the result of a step, and logs a change. It does nothing if the context ended.
func (s *status) set(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	err = explain(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.reasons[what]
	log := klog.FromContext(ctx)
	switch {
	case err == nil && before == nil:
	case err == nil:
		delete(s.reasons, what)
		log.Info("The available space is published", "step", what)
	default:
		s.reasons[what] = err
		if before == nil || before.Error() != err.Error() {
			log.Error(err, "Cannot publish the available space; trying again", "step", what)
		}
	}
}

// explain adds what to do to an error. It removes the URL of a request without a response,
// a part of which is random, so that equal errors have equal texts.
func explain(err error) error {
	var unanswered *url.Error
	switch {
	case errors.As(err, &unanswered):
		return fmt.Errorf("the API server does not respond: %w", unanswered.Err)
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
