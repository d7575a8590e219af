package provision

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
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
// A claim of ours that cannot be served is refused with an event, once.
func (c *Controller) ShouldProvision(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	if claim.DeletionTimestamp != nil || c.feed.placer.place(claim) != ours || c.savedPV(pvName(claim)) != nil {
		return false
	}
	r := c.refusalOf(claim)
	if r == nil {
		return true
	}
	if r.topic == topicSpace && !annotated(claim) && c.scheduled(claim) {
		return true // Provision tells the scheduler to choose again
	}
	c.refuse(ctx, claim, r)
	return false
}

// scheduled reports whether the scheduler chose the node, and may be asked to
// choose again.
func (c *Controller) scheduled(claim *corev1.PersistentVolumeClaim) bool {
	sc := c.classNamed(class.Of(claim))
	return sc != nil && class.Delayed(sc)
}

// Provision makes the volume and describes its PV. It may be called again for
// the same claim and then returns the same volume.
func (c *Controller) Provision(ctx context.Context, o lib.ProvisionOptions) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	name := class.Directory(o.PVName, o.PVC.Name, c.prefix)
	if v, err := c.pool.ByPV(o.PVName); err == nil {
		name = v.Name
	}
	policy := c.policy
	if policy == "" && o.StorageClass.ReclaimPolicy != nil {
		policy = *o.StorageClass.ReclaimPolicy
	}
	v, err := c.pool.Create(volume.Spec{
		Name:          name,
		Bytes:         class.Bytes(o.PVC),
		PV:            o.PVName,
		Owner:         volume.Owner{Namespace: o.PVC.Namespace, Name: o.PVC.Name, UID: string(o.PVC.UID)},
		Cluster:       c.facts.cluster,
		ReclaimPolicy: string(policy),
	})
	switch {
	case err == nil:
		return class.HostPathPV(o.PVName, v.Path, o.PVC, o.StorageClass, c.here(), policy), lib.ProvisioningFinished, nil
	case errors.Is(err, volume.ErrNoSpace) && !annotated(o.PVC):
		return nil, lib.ProvisioningReschedule, c.inWords(err)
	}
	return nil, lib.ProvisioningFinished, c.inWords(err)
}

// ShouldDelete decides in silence whether this PV names a volume of ours that
// may go. What is wrong with a PV is said where it is first seen, in pvs.go.
func (c *Controller) ShouldDelete(_ context.Context, pv *corev1.PersistentVolume) bool {
	name, err := c.examine(pv)
	if err != nil {
		return false
	}
	v, err := c.pool.Get(name)
	switch {
	case err == nil:
		return matches(v, pv) == nil
	case errors.Is(err, volume.ErrNotFound):
		return adoptable(pv, name) == nil
	}
	// Delete will say so, and be tried again. So it is where another agent has
	// the pool: the library forgets what may not be deleted, and that agent may
	// end before it did it.
	return errors.Is(err, volume.ErrNotReady)
}

// Delete puts the PV's volume into the trash. It may be called again; a volume
// that is gone is a success, but only on a pool that is ready.
func (c *Controller) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	name, err := c.examine(pv)
	if err != nil {
		return err
	}
	v, err := c.pool.Get(name)
	switch {
	case errors.Is(err, volume.ErrNotFound):
		// Either it went in an earlier call, or an older provisioner made it.
		if err = c.adopt(ctx, pv, name); errors.Is(err, volume.ErrNotFound) {
			return nil
		}
	case err == nil:
		err = matches(v, pv)
	}
	if err != nil {
		return err
	}
	if err := c.pool.Delete(name); err != nil {
		return fmt.Errorf("node %s: %w", c.node, err)
	}
	c.deleted()
	c.waiting.changed()
	return nil
}
