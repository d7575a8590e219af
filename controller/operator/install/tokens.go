package install

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	if metricsauth.Requires(o.DaemonSet.Spec.Template.Spec) {
		return true, nil
	}
	for i := range o.Pods {
		pod := &o.Pods[i]
		if !metav1.IsControlledBy(pod, o.DaemonSet) || !metricsauth.Requires(pod.Spec) {
			continue
		}
		if stranded, err := r.former().Stranded(ctx, pod); err != nil || !stranded {
			return true, err
		}
	}
	return false, nil
}

// keepReader has the account that may read the metrics while a client needs a token, and otherwise
// removes it.
func (r *Reconciler) keepReader(ctx context.Context, cr *v1beta1.HostPathProvisioner, needed bool) error {
	if !needed {
		return r.Reader().Remove(ctx, cr)
	}
	objects, err := r.Reader().Objects(cr)
	if err != nil {
		return err
	}
	if err := r.Applier.Apply(ctx, cr, objects...); err != nil {
		return err
	}
	return r.Reader().EnsureSecret(ctx, cr)
}

// secretAgain returns when to read the Secret again, 0 for never.
func (p *plan) secretAgain() time.Duration {
	if p.tokens {
		return secretInterval
	}
	return 0
}
