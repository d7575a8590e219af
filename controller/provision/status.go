package provision

import (
	"errors"
	"sync"
)

// stage is a part of the loop that can stand in the way of readiness.
type stage string

const (
	stageStart       stage = "start"
	stagePermissions stage = "permissions"
)

// status is why the loop is not ready, a reason a stage.
type status struct {
	mu      sync.Mutex
	reasons map[stage]error
}

// set notes that a stage is fine (nil) or why not.
func (s *status) set(at stage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons == nil {
		s.reasons = map[stage]error{}
	}
	s.reasons[at] = err
}

func (s *status) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.reasons[stageStart], s.reasons[stagePermissions])
}

// Ready returns nil where the loop serves claims, or why it does not: the API
// server does not answer, a permission is missing. The pool's own state is not
// part of it.
func (c *Controller) Ready() error { return c.status.err() }
