package install

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/release"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// plan is the layout of a pass, and what the pass found.
type plan struct {
	layout.Layout
	// claims is what was found of pools on claims.
	claims claimpools.Result
	// without are nodes that get no agent yet, because the pod of a former agent is there.
	without []string
	// tlsVersion is the oldest version of the agents' metrics, "" for the agent's default.
	tlsVersion string
	// tokens is set if the metrics of some agent are, or are to be, for clients with a token.
	tokens bool
	// pullSecrets are those of the agents.
	pullSecrets []corev1.LocalObjectReference
}

// again returns when to check again whether what is kept for volumes can go, 0 for never.
func (p *plan) again() time.Duration {
	if len(p.Retained) > 0 || p.Leaving() || len(p.without) > 0 {
		return checkInterval
	}
	return 0
}

// claimPools returns the reconciler of the pools on claims for this pass.
func (r *Reconciler) claimPools(cr *v1beta1.HostPathProvisioner, record *poolrecord.Record,
	secrets []corev1.LocalObjectReference) *claimpools.Reconciler {
	return &claimpools.Reconciler{Pass: release.Pass{
		Maker:  objects.Maker{Installation: r.Installation, Image: r.Image, PullSecrets: secrets},
		Client: r.Client, Live: r.Live, Applier: r.Applier, Events: r.Events, Now: r.Now, Record: record, Resource: cr,
		Blockers: &r.blockers,
	}}
}

// reconcileClaimPools has the pools on claims as the layout has them, on the nodes of the agents.
func (r *Reconciler) reconcileClaimPools(ctx context.Context, cr *v1beta1.HostPathProvisioner, l *plan,
	a agentstatus.State) (err error) {
	nodes, err := r.offering(ctx, a)
	if err != nil {
		return err
	}
	wanted := objects.Desired{Pools: l.OnClaims(), Nodes: nodes, Agents: a.Desired,
		Settled: a.Settled && len(l.without) == 0} // the others are to have an agent later
	l.claims, err = r.claimPools(cr, l.Record, l.pullSecrets).Reconcile(ctx, wanted)
	l.Retained = append(l.Retained, l.claims.Kept...)
	return err
}
