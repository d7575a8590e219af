package install

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
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
}

// again returns when to check again whether what is kept for volumes can go, 0 for never.
func (p *plan) again() time.Duration {
	if len(p.Retained) > 0 || p.Leaving() || len(p.without) > 0 {
		return checkInterval
	}
	return 0
}

// claimPools returns the reconciler of the pools on claims. Their holders have no owner while the
// resource is deleted: a deletion in the foreground would delete them first.
func (r *Reconciler) claimPools(cr *v1beta1.HostPathProvisioner, record *poolrecord.Record) *claimpools.Reconciler {
	wanted := func(o client.Object) (*unstructured.Unstructured, error) {
		want, err := apply.ToApply(o)
		if err != nil {
			return nil, err
		}
		r.Own(want, cr)
		if cr.DeletionTimestamp != nil {
			want.SetOwnerReferences(nil)
		}
		return want, nil
	}
	return &claimpools.Reconciler{
		Namespace: r.Namespace, Image: r.Image, Client: r.Client, Live: r.Live, Now: r.Now, Recorded: record.Holders,
		Event: func(about client.Object, eventtype, reason, message string) {
			r.Events.Eventf(cr, about, eventtype, reason, "Reconcile", "%s", message)
		},
		Save: func(ctx context.Context, known map[string]poolrecord.Holder) error {
			record.Holders = known
			return record.Write(ctx, r.Client)
		},
		Apply: func(ctx context.Context, o client.Object) error {
			want, err := wanted(o)
			if err != nil {
				return err
			}
			return r.Applier.Apply(ctx, cr, want)
		},
		Differs: func(ctx context.Context, o client.Object) (bool, error) {
			want, err := wanted(o)
			if err != nil {
				return false, err
			}
			return r.Applier.Differs(ctx, want)
		},
	}
}

// reconcileClaimPools has the pools on claims as the layout has them, on the nodes of the agents.
func (r *Reconciler) reconcileClaimPools(ctx context.Context, cr *v1beta1.HostPathProvisioner, l *plan,
	a agentstatus.State) (err error) {
	wanted := claimpools.Desired{Pools: l.OnClaims(), Nodes: offering(a.Running), Agents: a.Desired,
		Settled: a.Settled && len(l.without) == 0} // the others are to have an agent later
	l.claims, err = r.claimPools(cr, l.Record).Reconcile(ctx, cr, wanted)
	l.Retained = append(l.Retained, l.claims.Kept...)
	return err
}
