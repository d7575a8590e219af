package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The provisioner library calls these interfaces.
var (
	_ lib.Provisioner      = (*Controller)(nil)
	_ lib.Qualifier        = (*Controller)(nil)
	_ lib.DeletionGuard    = (*Controller)(nil)
	_ lib.BlockProvisioner = (*Controller)(nil)
)

// SupportsBlock returns true, so that the library calls ShouldProvision, whose refusal
// names what is supported.
func (c *Controller) SupportsBlock(context.Context) bool { return true }

// ShouldProvision reports whether the library should call Provision for a claim. It records no
// event about a remote claim. A local claim that cannot be served gets one event. If the scheduler
// may place it elsewhere, the answer is true: Provision returns the refusal.
func (c *Controller) ShouldProvision(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	name := contract.PVName(claim)
	if claim.DeletionTimestamp != nil || !c.Claims.IsLocal(claim) || c.PVs.Saved(name) != nil || c.saving.waits(name) {
		return false
	}
	sc := c.Claims.Class(contract.Of(claim))
	if sc == nil {
		return false
	}
	b := c.Backends.Named(sc.Provisioner)
	if b == nil {
		return false
	}
	if contract.Copies(claim, sc) {
		return c.shouldCopy(ctx, b, claim, sc)
	}
	r := c.refusalOf(ctx, b, claim, sc)
	if r == nil {
		return !c.awaitsCopy(ctx, claim, sc)
	}
	if b.GivesBack(claim, sc, r.why()) {
		// IsEarly: the controller-manager is about to write to the claim, and giving it
		// back would conflict with that.
		return !c.Claims.IsEarly(claim.UID)
	}
	c.refuse(ctx, claim, r)
	return false
}

// Provision creates the volume and describes its PV. A second call for a claim returns its volume.
func (c *Controller) Provision(ctx context.Context,
	o lib.ProvisionOptions) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	b := c.Backends.Named(o.StorageClass.Provisioner)
	if b == nil {
		return nil, lib.ProvisioningFinished, fmt.Errorf("the provisioner %q is not served here", o.StorageClass.Provisioner)
	}
	pool, v, r := c.create(ctx, b, o)
	if r != nil && r.conflict {
		pool, v, r = c.createAnew(ctx, b, o, r)
	}
	if r != nil {
		return c.failed(ctx, b, o, r)
	}
	c.Changed(pool)
	if _, by := contract.NodeOf(o.PVC, o.StorageClass); by != contract.AnnProvisionOnNode && contract.NamesNode(o.PVC) {
		topic, message := claims.AnnotationIgnored(contract.Of(o.PVC))
		c.Events.Note(ctx, events.Claim(o.PVC), topic, events.AnnotationIgnored, message)
	}
	if keys := contract.Ignored(o.StorageClass); len(keys) > 0 { // one event for all claims and agents
		c.Events.Note(ctx, events.Class(o.StorageClass), "parameters", events.ParameterIgnored, fmt.Sprintf(
			"the parameters %q of this class have no effect: are they misspelt, or of another provisioner?", keys))
	}
	if message := c.noQuota(pool, v); message != "" {
		c.Events.Warn(ctx, events.Claim(o.PVC), "no quota", events.QuotaNotEnforced, message)
	}
	if !b.IsCSI {
		c.Info.ReadAgain(ctx, hostnameAge)
	}
	return c.describe(ctx, b, o, pool, v)
}

func (c *Controller) create(ctx context.Context, b *backends.Backend, o lib.ProvisionOptions) (*volume.Pool, volume.Volume, *refusal) {
	at, r := c.placeOf(b, o.PVC, o.StorageClass)
	if r != nil {
		return nil, volume.Volume{}, r
	}
	at.spec.PV, at.spec.Cluster = o.PVName, c.Info.Cluster()
	at.spec.ReclaimPolicy = string(contract.ReclaimPolicy(c.ReclaimPolicy, o.StorageClass))
	if contract.Copies(o.PVC, o.StorageClass) {
		v, r := c.makeCopy(ctx, at, o.PVC, o.StorageClass)
		return at.pool, v, r
	}
	v, err := c.Pools.Create(at.pool, at.spec)
	if err != nil {
		return nil, volume.Volume{}, c.refusalFor(at.pool, err)
	}
	return at.pool, v, nil
}

// createAnew creates the claim's volume after create found one that does not fit: the class was
// deleted and created again with other parameters, for example, before the volume had a PV. It
// removes that one first, as pvs.Discard may. Otherwise it returns the refusal of create, and why.
func (c *Controller) createAnew(ctx context.Context, b *backends.Backend, o lib.ProvisionOptions,
	r *refusal) (*volume.Pool, volume.Volume, *refusal) {
	pool, v := existing(b, c.Pools.All(), o.PVC, o.StorageClass)
	if pool == nil {
		return nil, v, r
	}
	if err := c.PVs.Discard(ctx, pool, v, o.PVC); err != nil {
		r.message = fmt.Sprintf("%s; %v", r.message, err)
		return nil, v, r
	}
	if r := c.refusalOf(ctx, b, o.PVC, o.StorageClass); r != nil {
		return nil, v, r
	}
	return c.create(ctx, b, o)
}

// hostnameAge is how old the hostname of a new PV may be: a tool may change the label of a Node,
// and no user can change the affinity of a PV. It spares a request for each of many claims.
var hostnameAge = timing.Scaled(5 * time.Second)

// describe returns the results of Provision for a volume that exists.
func (c *Controller) describe(ctx context.Context, b *backends.Backend, o lib.ProvisionOptions, pool *volume.Pool,
	v volume.Volume) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	pv := b.NewPV(backends.Made{
		Name: o.PVName, Claim: o.PVC, Class: o.StorageClass, Pool: pool, Volume: v,
		At: c.PVs.At(pool), Policy: contract.ReclaimPolicy(c.ReclaimPolicy, o.StorageClass),
	})
	if c.WholeDisk {
		space, err := pool.Space()
		if err != nil {
			return c.failed(ctx, b, o, c.refusalFor(pool, err))
		}
		pv.Spec.Capacity[corev1.ResourceStorage] = contract.WholeDisk(space.Total, v.Bytes)
	}
	return pv, lib.ProvisioningFinished, nil
}

// noQuota returns the event message for the first volume that a pool creates without the
// quota that its class asks for if possible; "" for all others. One event a pool is enough:
// only the node's administrator can enable quotas.
func (c *Controller) noQuota(pool *volume.Pool, v volume.Volume) string {
	if v.NotEnforced == "" || v.Quota != record.QuotaBestEffort || v.Adopted {
		return ""
	}
	if _, noted := c.notedNoQuota.LoadOrStore(pool.Name(), true); noted {
		return ""
	}
	return fmt.Sprintf("node %s serves the volume from pool %s without a quota: %s; the agent records this event once "+
		"for each pool after a start",
		c.Info.Name(), pool.Name(), v.NotEnforced)
}

// failed returns the results of Provision for a refusal. A temporary one of a claim that stays here is
// told and tried again as those of ShouldProvision are: the library's event would be a second one with
// the same words, and it waits for longer and longer.
func (c *Controller) failed(ctx context.Context, b *backends.Backend, o lib.ProvisionOptions,
	r *refusal) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	if b.GivesBack(o.PVC, o.StorageClass, r.why()) && !(r.temporary && contract.Copies(o.PVC, o.StorageClass)) {
		return nil, lib.ProvisioningReschedule, errors.New(cmp.Or(r.steady, r.message))
	}
	if r.temporary {
		c.refuse(ctx, o.PVC, r)
		return nil, lib.ProvisioningFinished, &lib.IgnoredError{Reason: r.message}
	}
	return nil, lib.ProvisioningFinished, errors.New(r.message)
}
