package provision

import (
	"errors"
	"sync/atomic"
)

// status holds why the controller has not started, nil once it has.
type status struct{ reason atomic.Pointer[error] }

func (s *status) set(err error) { s.reason.Store(&err) }

func (s *status) err() error { return *s.reason.Load() }

// Ready returns nil if claims are served, or why they are not: the API server does not
// answer, or a permission is missing. The state of pools is not part of it.
func (c *Controller) Ready() error { return errors.Join(c.status.err(), c.info.Ready()) }
