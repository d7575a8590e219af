package provision

import (
	"errors"
	"sync/atomic"
)

// status is why the loop has not started, nil once it has.
type status struct{ reason atomic.Pointer[error] }

func (s *status) set(err error) { s.reason.Store(&err) }

func (s *status) err() error { return *s.reason.Load() }

// Ready returns nil where the loop serves claims, or why it does not: the API
// server does not answer, a permission is missing. The pool's own state is not
// part of it.
func (c *Controller) Ready() error { return errors.Join(c.status.err(), c.info.Ready()) }
