package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// offer returns the work that wipes a device without a PV and makes its PV. A device that carries
// anything is refused, unless the ConfigMap has `existing: wipe`.
func (c *Controller) offer(t target) work {
	return func(ctx context.Context, report func(disk.Progress)) error {
		err := c.wipeNew(ctx, &t, report)
		if err == nil {
			err = c.create(ctx, t)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errEnded) {
			c.warnNew(ctx, t.device, err)
		}
		return err
	}
}

// wipeNew wipes a device without a PV. It does nothing to one that was wiped already, and then
// names the PV as before.
func (c *Controller) wipeNew(ctx context.Context, t *target, report func(disk.Progress)) error {
	d, s := t.device, t.spec
	note, clean := c.wipedBefore(d)
	if clean && note.name != "" {
		t.name = note.name
	}
	if other, err := live.PV(ctx, c.Client, t.name); err != nil {
		return err
	} else if other != nil && elsewhere(other, t.node) { // of a node whose name begins like this one's
		t.name = hashedName(t.name, d.Path)
	}
	if err := c.mayWipe(ctx, d, s); err != nil {
		return err
	}
	if clean {
		if found, err := disk.Probe(ctx, d, s.wipe); err != nil {
			return err
		} else if !found.Found() {
			return c.takeDisk(ctx, *t)
		}
	}
	x, err := disk.Open(d)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := c.takeDisk(ctx, *t); err != nil {
		return err
	}
	if err := c.checkEmpty(ctx, x, d, s); err != nil {
		return err
	}
	began := time.Now()
	if err := x.Wipe(ctx, s.wipe, report); err != nil {
		return &wipeError{err}
	}
	c.noteWiped(*t, "")
	c.noteNode(ctx, d.Path+began.String(), events.DeviceWiped, wipedMessage(d, s.wipe, time.Since(began)))
	return nil
}

// mayWipe refuses a device that carries something. It opens the device to read only: closing a
// device that was open to be written makes udev probe it once more.
func (c *Controller) mayWipe(ctx context.Context, d disk.Device, s *spec) error {
	found, err := disk.Probe(ctx, d, s.wipe)
	if err == nil && found.Found() && !s.existing {
		return refusal(d, found, s)
	}
	return err
}

// checkEmpty refuses a device that carries something, unless the ConfigMap allows to wipe it. Now that nothing else can use the
// device, it reads more than mayWipe.
func (c *Controller) checkEmpty(ctx context.Context, x *disk.Exclusive, d disk.Device, s *spec) error {
	if s.existing {
		return nil
	}
	found, err := x.Signature(ctx, s.wipe)
	if err == nil && !found.Found() {
		found, err = x.Remains(ctx)
	}
	if err == nil && found.Found() {
		return refusal(d, found, s)
	}
	return err
}

func refusal(d disk.Device, found disk.Signature, s *spec) error {
	if s.unknown != "" {
		return fmt.Errorf("%w: %s carries %s, and the disk of PV %s, which has a claim, is not known: it may be this one. "+
			"Attach or confirm the disk of that PV, or wipe this device by hand", errRefused, describe(d), found, s.unknown)
	}
	return fmt.Errorf("%w: %s carries %s. It is not wiped and not offered: set %s: %s in ConfigMap %s, or wipe the device by hand",
		errRefused, describe(d), found, keyExisting, existingWipe, s.configMap)
}

// describe names a device as a person finds it.
func describe(d disk.Device) string {
	if d.ID == "" {
		return fmt.Sprintf("%s (%s)", d.Path, contract.Size(d.Bytes))
	}
	return fmt.Sprintf("%s (%s, %s)", d.Path, contract.Size(d.Bytes), d.ID)
}

// create makes the PV of a wiped device. A name that a PV of another device has is replaced by one
// with a hash.
func (c *Controller) create(ctx context.Context, t target) error {
	d := t.device
	for _, name := range []string{t.name, hashedName(t.name, d.Path)} {
		pv := newPV(name, d, t.spec, t.node)
		_, err := c.Client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
		if err == nil {
			c.forget(d.Number) // a claim may have the PV before the next pass
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		there, err := live.PV(ctx, c.Client, name)
		if err != nil {
			return err
		}
		if there == nil || there.DeletionTimestamp != nil && localPath(there) == d.Path {
			return &disk.BusyError{Path: d.Path, Why: fmt.Sprintf("wiped; PV %s is still being deleted", name)}
		}
		if n, err := disk.Resolve(localPath(there)); err == nil && n == d.Number && !elsewhere(there, t.node) {
			return nil
		}
	}
	return errors.New("the names of its PV are taken by PVs of other devices: " + t.name)
}
