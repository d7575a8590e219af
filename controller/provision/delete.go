package provision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// ShouldDelete decides without an event whether this PV names a volume of ours
// that may go. Events about the PV are recorded when it is first seen.
func (c *Controller) ShouldDelete(ctx context.Context, pv *corev1.PersistentVolume) bool {
	// If its deletion is over, the watch is behind.
	return !c.deletions.isOver(pv) && c.pvs.ShouldDelete(ctx, pv)
}

// Delete puts the PV's volume into the trash. It may be called again.
func (c *Controller) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	err := c.pvs.Delete(ctx, pv)
	if err == nil && pv.UID != "" {
		c.deletions.volumeGone(pv)
	}
	return err
}
