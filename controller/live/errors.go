package live

import "kubevirt.io/hostpath-provisioner/volume"

// Unanswered is the error of a failed read. It matches volume.ErrNotReady: the caller
// retries, as with a pool that is not ready.
type Unanswered struct {
	Request string // such as "read PV data"
	Err     error  // from the client
}

func (e Unanswered) Error() string { return e.Request + ": " + e.Err.Error() }

// Unwrap returns the client's error.
func (e Unanswered) Unwrap() error { return e.Err }

// Is reports whether target is volume.ErrNotReady.
func (e Unanswered) Is(target error) bool { return target == volume.ErrNotReady }
