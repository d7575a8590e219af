package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/volume"
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
	if claim.DeletionTimestamp != nil || !c.claims.IsLocal(claim) || c.savedPV(class.PVName(claim)) != nil {
		return false
	}
	sc := c.claims.Class(class.Of(claim))
	if sc == nil {
		return false
	}
	s := c.shapeNamed(sc.Provisioner)
	if s == nil {
		return false
	}
	r := c.refusalOf(s, claim, sc)
	if r == nil {
		return true
	}
	if s.givesBack(claim, sc, r) {
		// What is about to be written on it would be in the way of that.
		return !c.claims.IsEarly(claim.UID)
	}
	c.refuse(ctx, claim, r)
	return false
}

// Provision makes the volume and describes its PV. It may be called again for
// the same claim and then returns the same volume.
func (c *Controller) Provision(ctx context.Context, o lib.ProvisionOptions) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	s := c.shapeNamed(o.StorageClass.Provisioner)
	if s == nil {
		return nil, lib.ProvisioningFinished, fmt.Errorf("the provisioner %q is not served here", o.StorageClass.Provisioner)
	}
	pool := s.pool(o.StorageClass)
	if pool == nil {
		return c.failed(s, o, c.noPool(o.StorageClass))
	}
	name, _ := c.directoryOf(s, pool, o.PVC)
	spec := specOf(o.PVC, o.StorageClass)
	spec.Name, spec.PV, spec.Cluster = name, o.PVName, c.cluster()
	spec.ReclaimPolicy = string(c.policyOf(o.StorageClass))
	v, err := c.pools.Create(pool, spec)
	if err != nil {
		return c.failed(s, o, c.refusalFor(pool, err))
	}
	c.changed(pool)
	if words := s.ignored(o.PVC); words != "" {
		c.events.Note(ctx, events.Claim(o.PVC), "ignored", reasonIgnored, words)
	}
	if words := c.unlimited(pool, v); words != "" {
		c.events.Note(ctx, events.Claim(o.PVC), "unlimited", reasonUnlimited, words)
	}
	return c.describe(s, o, pool, v)
}

// policyOf returns the reclaim policy of new PVs of the class.
func (c *Controller) policyOf(sc *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	return class.ReclaimPolicy(c.policy, sc)
}

// describe is Provision's answer for a volume that is made.
func (c *Controller) describe(s shape, o lib.ProvisionOptions, pool *volume.Pool, v volume.Volume) (
	*corev1.PersistentVolume, lib.ProvisioningState, error) {
	pv := s.newPV(o, pool, v)
	if c.whole {
		space, err := pool.Space()
		if err != nil {
			return c.failed(s, o, c.refusalFor(pool, err))
		}
		pv.Spec.Capacity[corev1.ResourceStorage] = class.WholeDisk(space.Total, v.Bytes)
	}
	return pv, lib.ProvisioningFinished, nil
}

// unlimited says, of the first volume that a pool makes without the limit it
// would have elsewhere, why it has none. An event for each would be noise: what
// is missing is the node's administrator's to add.
func (c *Controller) unlimited(pool *volume.Pool, v volume.Volume) string {
	if v.Unlimited == "" || v.Limit != volume.LimitBestEffort || v.Adopted {
		return ""
	}
	if _, said := c.saidUnlimited.LoadOrStore(pool.Name(), true); said {
		return ""
	}
	return fmt.Sprintf("the volume is served by node %s from pool %s without its limit: %s; this is said once for each pool and start of the agent",
		c.node, pool.Name(), v.Unlimited)
}

// failed is Provision's answer to a refusal.
func (c *Controller) failed(s shape, o lib.ProvisionOptions, r *refusal) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	if s.givesBack(o.PVC, o.StorageClass, r) {
		return nil, lib.ProvisioningReschedule, errors.New(cmp.Or(r.steady, r.message))
	}
	return nil, lib.ProvisioningFinished, errors.New(r.message)
}

// ShouldDelete decides in silence whether this PV names a volume of ours that
// may go. What is wrong with a PV is said where it is first seen, in pvs.go.
func (c *Controller) ShouldDelete(ctx context.Context, pv *corev1.PersistentVolume) bool {
	s := c.shapeOf(pv)
	if s == nil || waitsForClaim(pv) {
		return false
	}
	if _, ok := c.finished.Get(pv.UID); ok {
		return false // the watch is behind
	}
	pool, name, err := s.examine(pv)
	if err != nil || s.deletes(pv) != nil {
		return false
	}
	v, err := pool.Get(name)
	switch {
	case err == nil && v.Migration.UnderWay():
		return false
	case err == nil:
		if err = s.matches(v, pv); errors.As(err, new(otherClaim)) && class.Leaving(pv) {
			_, err = c.heir(ctx, pv, pool, v, err)
		}
	case errors.Is(err, volume.ErrNotFound) && nothingLeft(pv, pool, name):
		return true
	case errors.Is(err, volume.ErrNotFound):
		return s.adoptable(pv, pool, name) == nil
	}
	// Delete will say so, and be tried again. So it is where another agent has
	// the pool: the library forgets what may not be deleted, and that agent may
	// end before it did it.
	return err == nil || errors.Is(err, volume.ErrNotReady)
}

// Delete puts the PV's volume into the trash. It may be called again; a volume
// that is gone is a success, but only on a pool that is ready. One that is still
// mounted is an error, and tried again.
func (c *Controller) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	err := c.empty(ctx, pv)
	if err == nil && pv.UID != "" {
		c.emptied.Store(pv.Name, pv)
	}
	return err
}

func (c *Controller) empty(ctx context.Context, pv *corev1.PersistentVolume) error {
	s := c.shapeOf(pv)
	if s == nil {
		return fmt.Errorf("node %s serves no PVs like this one", c.node)
	}
	pool, name, err := s.examine(pv)
	if err != nil {
		return err
	}
	if err := s.deletes(pv); err != nil {
		return err
	}
	if err := c.claimGone(ctx, pv); err != nil {
		return err
	}
	v, err := pool.Get(name)
	switch {
	case err == nil:
		_, err = c.follow(ctx, s, pv, pool, v)
	case !errors.Is(err, volume.ErrNotFound):
	case nothingLeft(pv, pool, name):
		return nil
	default:
		// Either it went in an earlier call, or an older provisioner made it.
		if err = c.adopt(ctx, s, pv, pool, name); errors.Is(err, volume.ErrNotFound) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	err = pool.DeleteIf(name, func(now volume.Record) error { // which may have another claim meanwhile
		return s.matches(volume.Volume{Record: now, Path: filepath.Join(pool.Path(), name)}, pv)
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", c.node, err)
	}
	c.changed(pool)
	c.claims.Retry()
	return nil
}
