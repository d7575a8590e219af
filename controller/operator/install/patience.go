package install

import (
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
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
	if !live.Transient(err) {
		r.troubledSince = time.Time{}
		return false
	}
	if r.troubledSince.IsZero() {
		r.troubledSince = r.Now()
	}
	return r.Now().Sub(r.troubledSince) < patience
}
