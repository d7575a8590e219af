package install

import (
	"context"
	"time"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/controller/operator/metricsauth"
)

// secretInterval is how often the Secret of the account for metrics is read again: the operator does not
// watch it.
var secretInterval = timing.Scaled(time.Minute)

// Reader returns the account that may read the metrics.
func (r *Reconciler) Reader() metricsauth.Reader {
	return metricsauth.Reader{Installation: r.Installation, Client: r.Client, Live: r.Live, Applier: r.Applier}
}

// NeedsTokens reports whether a client needs a token for the metrics: the resource asks for it, or an agent
// does that is not replaced yet. A pod that nothing can end serves no metrics.
func (r *Reconciler) NeedsTokens(ctx context.Context, cr *v1beta1.HostPathProvisioner) (bool, error) {
	if metricsauth.Asked(cr) {
		return true, nil
	}
	o, err := r.Observe(ctx)
	if err != nil || o.DaemonSet == nil {
		return false, err
	}
	return metricsauth.RequiredBy(ctx, o.DaemonSet, o.Pods, r.former())
}

// secretAgain returns when to read the Secret again, 0 for never.
func (p *plan) secretAgain() time.Duration {
	if p.tokens {
		return secretInterval
	}
	return 0
}
