package live

import "kubevirt.io/hostpath-provisioner/volume"

// Unanswered is the error of a read that the API server did not answer. It is a
// volume.ErrNotReady: the caller tries again, as with a pool that is not ready.
type Unanswered struct {
	Question string // what was read, as in "read PV data"
	Err      error
}

func (e Unanswered) Error() string { return e.Question + ": " + e.Err.Error() }

// Unwrap returns the API server's error.
func (e Unanswered) Unwrap() error { return e.Err }

// Is reports whether target is volume.ErrNotReady.
func (e Unanswered) Is(target error) bool { return target == volume.ErrNotReady }
