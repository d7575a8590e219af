package provision

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/volume"
)

// ShouldDelete reports whether the library should call Delete for a PV. It records
// no event; PVs does when it first sees the PV.
func (c *Controller) ShouldDelete(_ context.Context, pv *corev1.PersistentVolume) bool {
	if c.deletions.isOver(pv) {
		return false // the watch is behind
	}
	err := c.PVs.Deletable(pv)
	// Delete returns an ErrNotReady again, and is retried. That is so too if another
	// agent has the pool: the library forgets a PV that may not be deleted, and that
	// agent may end before it deleted the volume.
	return err == nil || errors.Is(err, volume.ErrNotReady)
}

// Delete puts the PV's volume into the trash. It may be called again.
func (c *Controller) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	err := c.PVs.Delete(ctx, pv)
	if kept := (pvs.Kept{}); errors.As(err, &kept) {
		return &lib.IgnoredError{Reason: kept.Reason}
	}
	if err == nil && pv.UID != "" {
		c.deletions.volumeGone(pv)
	}
	return err
}
