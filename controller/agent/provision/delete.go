package provision

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
)

// ShouldDelete reports whether the library should call Delete for a PV. It records
// no event; PVs does when it first sees the PV.
func (c *Controller) ShouldDelete(_ context.Context, pv *corev1.PersistentVolume) bool {
	if c.deletions.isOver(pv) || c.deletions.isRefused(pv) {
		return false // the watch is behind, or the API server said no just now
	}
	err := c.PVs.Deletable(pv)
	// Delete returns an ErrNotReady again, and is retried. So is a PV whose pool another agent has:
	// the library would forget it, and that agent may end before it deleted the volume.
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

// over records that the PV is deleted and has the library's finalizer no more.
func (c *Controller) over(pv *corev1.PersistentVolume) {
	c.deletions.over(pv)
	c.PVs.Deleted(pv.Name)
}

// behindFor is for how long the watch is taken to be behind what the library wrote. After that a PV
// that it still has is there again, and a PV that it lacks is gone: etcd was restored from a backup.
var behindFor = timing.Scaled(5 * time.Minute)

// deletionProgress records how far the deletion of each PV is. The library calls Delete for
// the volume, then the client for the PV, and then the client once more for the
// finalizer. The watch may deliver all of that late.
type deletionProgress struct {
	withoutVolume sync.Map                  // PVs by name
	done          *utilcache.LRUExpireCache // UIDs of PVs
	refused       *utilcache.LRUExpireCache // UIDs of PVs that may not be deleted
}

func newDeletionProgress() *deletionProgress {
	return &deletionProgress{done: utilcache.NewLRUExpireCache(claims.RememberMost),
		refused: utilcache.NewLRUExpireCache(claims.RememberMost)}
}

// volumeGone records that the PV's volume is deleted. The PV itself is deleted next.
func (d *deletionProgress) volumeGone(pv *corev1.PersistentVolume) {
	d.withoutVolume.Store(pv.Name, pv)
}

// take returns the PV of that name if its volume is deleted, nil for any other PV.
// It does so once: the caller deletes the PV.
func (d *deletionProgress) take(name string) *corev1.PersistentVolume {
	pv, ok := d.withoutVolume.LoadAndDelete(name)
	if !ok {
		return nil
	}
	return pv.(*corev1.PersistentVolume)
}

// over records what Controller.over does.
func (d *deletionProgress) over(pv *corev1.PersistentVolume) { d.done.Add(pv.UID, nil, behindFor) }

// isOver reports whether over was called for the PV in the last behindFor, as far as that is remembered.
func (d *deletionProgress) isOver(pv *corev1.PersistentVolume) bool {
	_, ok := d.done.Get(pv.UID)
	return ok
}

// refuse records that the API server refused to delete the PV until something else changes. It is not
// asked again for refusedLast: each try is five requests.
func (d *deletionProgress) refuse(pv *corev1.PersistentVolume) {
	d.refused.Add(pv.UID, nil, refusedLast)
}

// isRefused reports whether refuse was called for the PV in the last refusedLast.
func (d *deletionProgress) isRefused(pv *corev1.PersistentVolume) bool {
	_, ok := d.refused.Get(pv.UID)
	return ok
}
