package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// release returns the work that wipes the device of a Released PV and then deletes the PV, with its
// UID. The next pass offers the device. A wipe that fails leaves the PV Released.
func (c *Controller) release(t target) work {
	return func(ctx context.Context, report func(disk.Progress)) error {
		err := c.wipeReleased(ctx, t, report)
		if err == nil {
			err = c.deleteWiped(ctx, t)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errEnded) {
			c.warnReleased(ctx, t.pv, err)
		}
		return err
	}
}

func (c *Controller) wipeReleased(ctx context.Context, t target, report func(disk.Progress)) error {
	x, err := disk.Open(t.device)
	if err != nil {
		return err
	}
	defer x.Close()
	now, err := c.stillReleased(ctx, t)
	if err != nil {
		return err
	}
	if note, clean := c.wipedBefore(t.device); clean && note.version != "" && note.version == now.ResourceVersion {
		return nil // the API server refused to delete the PV, which did not change since
	}
	if err := c.takeDisk(ctx, t); err != nil {
		return err
	}
	began := time.Now()
	if err := c.beginWipe(ctx, t.pv); err != nil {
		return err
	}
	if err := x.Wipe(ctx, t.spec.wipe, report); err != nil {
		return &wipeError{err}
	}
	c.noteWiped(t, now.ResourceVersion)
	c.endWipe(ctx, t.pv.UID)
	c.notePV(ctx, t.pv, "wiped", events.DeviceWiped, wipedMessage(t.device, t.spec.wipe, time.Since(began)))
	return nil
}

// deleteWiped deletes a PV whose disk was wiped. The API server refuses that if the PV changed after
// it was read: an administrator can give a Released PV to another claim.
func (c *Controller) deleteWiped(ctx context.Context, t target) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := c.stillReleased(ctx, t)
		if err != nil {
			return err
		}
		return c.Client.CoreV1().PersistentVolumes().Delete(ctx, now.Name, live.Unchanged(now))
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PV %s, whose disk is wiped: %w", t.pv.Name, err)
	}
	c.noteWiped(t, "")
	return nil
}
