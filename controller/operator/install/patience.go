package install

import (
	"context"
	"errors"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// retryInterval is the pause after a step that failed for a reason which ends by itself.
	retryInterval = 5 * time.Second
	// patience is for how long such steps may fail before the conditions show it: an API server
	// that restarts degrades nothing.
	patience = time.Minute
)

// passesSoon reports whether a step failed for a reason that ends without help, and not for long.
// The caller tries again and leaves the conditions. Any other result begins a new patience.
func (r *Reconciler) passesSoon(err error) bool {
	if !transient(err) {
		r.troubledSince = time.Time{}
		return false
	}
	if r.troubledSince.IsZero() {
		r.troubledSince = r.Now()
	}
	return r.Now().Sub(r.troubledSince) < patience
}

// transient reports whether an error is that of an API server that is slow, busy or away.
func transient(err error) bool {
	var network net.Error
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err)
}
