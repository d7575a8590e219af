package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// release returns the work that wipes the device of a Released PV and then deletes the PV, with its
// UID. The next pass offers the device. A wipe that fails leaves the PV Released.
func (c *Controller) release(d disk.Device, pv *corev1.PersistentVolume, s *spec, node *corev1.Node) work {
	return func(ctx context.Context, report func(disk.Progress)) error {
		err := c.wipeReleased(ctx, d, pv, s, node, report)
		if err == nil {
			err = c.deleteWiped(ctx, d, pv, node)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errEnded) {
			c.warnReleased(ctx, pv, err)
		}
		return err
	}
}

func (c *Controller) wipeReleased(ctx context.Context, d disk.Device, pv *corev1.PersistentVolume, s *spec, node *corev1.Node, report func(disk.Progress)) error {
	x, err := disk.Open(d)
	if err != nil {
		return err
	}
	defer x.Close()
	now, err := c.stillReleased(ctx, pv, d, node)
	if err != nil {
		return err
	}
	if note, clean := c.wipedBefore(d); clean && note.version != "" && note.version == now.ResourceVersion {
		return nil // the API server refused to delete the PV, which did not change since
	}
	if err := c.takeDisk(ctx, node, d, pv.Name, pv.UID); err != nil {
		return err
	}
	began := time.Now()
	if err := c.beginWipe(ctx, pv); err != nil {
		return err
	}
	if err := x.Wipe(ctx, s.wipe, report); err != nil {
		return &wipeError{err}
	}
	c.noteWiped(d, pv.UID, pv.Name, now.ResourceVersion)
	c.endWipe(ctx, pv.UID)
	c.notePV(ctx, pv, "wiped", events.DeviceWiped, wipedMessage(d, s.wipe, time.Since(began)))
	return nil
}

// deleteWiped deletes a PV whose disk was wiped. The API server refuses that if the PV changed after
// it was read: an administrator can give a Released PV to another claim.
func (c *Controller) deleteWiped(ctx context.Context, d disk.Device, pv *corev1.PersistentVolume, node *corev1.Node) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := c.stillReleased(ctx, pv, d, node)
		if err != nil {
			return err
		}
		return c.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, live.Unchanged(now))
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PV %s, whose disk is wiped: %w", pv.Name, err)
	}
	c.noteWiped(d, pv.UID, pv.Name, "")
	return nil
}
