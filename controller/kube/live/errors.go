package live

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

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
func (e Unanswered) Is(target error) bool { return target == fault.ErrNotReady }

// Permanent reports whether the API server refused a request in a way that only a change elsewhere
// ends: of a permission, an admission policy, a webhook, or the object. An admission policy without
// a reason answers Invalid, and a webhook without a code BadRequest. A webhook that is down is not
// among them: the server reports an internal error.
func Permanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsRequestEntityTooLargeError(err)
}
