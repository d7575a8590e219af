package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The library asks through these.
var (
	_ lib.Provisioner      = (*Controller)(nil)
	_ lib.Qualifier        = (*Controller)(nil)
	_ lib.DeletionGuard    = (*Controller)(nil)
	_ lib.BlockProvisioner = (*Controller)(nil)
)

// SupportsBlock says yes so that the library asks ShouldProvision, whose
// refusal says what is offered instead.
func (c *Controller) SupportsBlock(context.Context) bool { return true }

// ShouldProvision decides in silence whether the claim is this node's turn.
// A claim of ours that cannot be served is refused with an event, once; one
// that the scheduler may place elsewhere goes to Provision, which says so.
func (c *Controller) ShouldProvision(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	if claim.DeletionTimestamp != nil || !c.claims.IsLocal(claim) || c.pvs.Saved(class.PVName(claim)) != nil {
		return false
	}
	sc := c.claims.Class(class.Of(claim))
	if sc == nil {
		return false
	}
	b := c.backends.named(sc.Provisioner)
	if b == nil {
		return false
	}
	r := c.refusalOf(b, claim, sc)
	if r == nil {
		return true
	}
	if b.givesBack(claim, sc, r) {
		// What is about to be written on it would be in the way of that.
		return !c.claims.IsEarly(claim.UID)
	}
	c.refuse(ctx, claim, r)
	return false
}

// Provision makes the volume and describes its PV. It may be called again for
// the same claim and then returns the same volume.
func (c *Controller) Provision(ctx context.Context, o lib.ProvisionOptions) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	b := c.backends.named(o.StorageClass.Provisioner)
	if b == nil {
		return nil, lib.ProvisioningFinished, fmt.Errorf("the provisioner %q is not served here", o.StorageClass.Provisioner)
	}
	pool, name, _ := c.placeOf(b, o.PVC, o.StorageClass)
	if pool == nil {
		return c.failed(b, o, c.noPool(b, o.StorageClass))
	}
	spec := specOf(o.PVC, o.StorageClass)
	spec.Name, spec.PV, spec.Cluster = name, o.PVName, c.info.Cluster()
	spec.ReclaimPolicy = string(c.policyOf(o.StorageClass))
	v, err := c.pools.Create(pool, spec)
	if err != nil {
		return c.failed(b, o, c.refusalFor(pool, err))
	}
	c.changed(pool)
	if b.ignoresNode && class.NamesNode(o.PVC) {
		c.events.Note(ctx, events.Claim(o.PVC), "ignored", events.AnnotationIgnored, fmt.Sprintf(
			"the annotation %s is ignored: the scheduler chooses the node of a volume of class %q; "+
				"to choose it yourself, say in the pod where it may run (spec.nodeSelector), or use a class of provisioner %s",
			class.AnnProvisionOnNode, class.Of(o.PVC), class.HostPathProvisioner))
	}
	if words := c.unlimited(pool, v); words != "" {
		c.events.Note(ctx, events.Claim(o.PVC), "unlimited", events.QuotaNotEnforced, words)
	}
	return c.describe(b, o, pool, v)
}

// policyOf returns the reclaim policy of new PVs of the class.
func (c *Controller) policyOf(sc *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	return class.ReclaimPolicy(c.policy, sc)
}

// describe is Provision's answer for a volume that is made.
func (c *Controller) describe(b *backend, o lib.ProvisionOptions, pool *volume.Pool, v volume.Volume) (
	*corev1.PersistentVolume, lib.ProvisioningState, error) {
	pv := b.newPV(served{
		name: o.PVName, claim: o.PVC, class: o.StorageClass, pool: pool, volume: v,
		at: c.here(pool), policy: c.policyOf(o.StorageClass),
	})
	if c.whole {
		space, err := pool.Space()
		if err != nil {
			return c.failed(b, o, c.refusalFor(pool, err))
		}
		pv.Spec.Capacity[corev1.ResourceStorage] = class.WholeDisk(space.Total, v.Bytes)
	}
	return pv, lib.ProvisioningFinished, nil
}

// unlimited says, of the first volume that a pool makes without the limit it
// would have elsewhere, why it has none. An event for each would be noise: what
// is missing is the node's administrator's to add.
func (c *Controller) unlimited(pool *volume.Pool, v volume.Volume) string {
	if v.NotEnforced == "" || v.Quota != record.QuotaBestEffort || v.Adopted {
		return ""
	}
	if _, said := c.saidUnlimited.LoadOrStore(pool.Name(), true); said {
		return ""
	}
	return fmt.Sprintf("the volume is served by node %s from pool %s without its limit: %s; this is said once for each pool and start of the agent",
		c.info.Name(), pool.Name(), v.NotEnforced)
}

// failed is Provision's answer to a refusal.
func (c *Controller) failed(b *backend, o lib.ProvisionOptions, r *refusal) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	if b.givesBack(o.PVC, o.StorageClass, r) {
		return nil, lib.ProvisioningReschedule, errors.New(cmp.Or(r.steady, r.message))
	}
	return nil, lib.ProvisioningFinished, errors.New(r.message)
}
