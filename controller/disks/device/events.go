package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// wipeError is the error of a wipe that was begun.
type wipeError struct{ error }

func (e *wipeError) Unwrap() error { return e.error }

func reasonOf(err error) string {
	switch {
	case errors.As(err, new(*wipeError)):
		return events.DeviceWipeFailed
	case errors.Is(err, disk.ErrBusy):
		return events.DeviceBusy
	case errors.Is(err, errRefused):
		return events.DeviceRefused
	}
	return events.DeviceError
}

// warnNew records why a device without a PV is not offered.
func (c *Controller) warnNew(ctx context.Context, d disk.Device, err error) {
	c.warnNode(ctx, d.Path+err.Error(), reasonOf(err), fmt.Sprintf("device %s is not offered: %v", d.Path, err))
}

// warnReleased records why the device of a Released PV is not offered again.
func (c *Controller) warnReleased(ctx context.Context, pv *corev1.PersistentVolume, err error) {
	c.warnPV(ctx, pv, err.Error(), reasonOf(err), fmt.Sprintf("the PV stays Released, and its device is tried again: %v", err))
}

func wipedMessage(d disk.Device, mode disk.Mode, took time.Duration) string {
	return fmt.Sprintf("%s is wiped (%s) and verified, in %s", describe(d), mode, took.Round(10*time.Millisecond))
}

func (c *Controller) warnNode(ctx context.Context, topic, reason, message string) {
	c.Events.Warn(ctx, *events.Node(c.node), reason+topic, reason, message)
}

func (c *Controller) noteNode(ctx context.Context, topic, reason, message string) {
	c.Events.Note(ctx, *events.Node(c.node), reason+topic, reason, message)
}

func (c *Controller) warnPV(ctx context.Context, pv *corev1.PersistentVolume, topic, reason, message string) {
	c.Events.Warn(ctx, events.PV(pv), reason+topic, reason, message)
}

func (c *Controller) notePV(ctx context.Context, pv *corev1.PersistentVolume, topic, reason, message string) {
	c.Events.Note(ctx, events.PV(pv), reason+topic, reason, message)
}
