package disks

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// offer is the work that wipes a device without a PV and makes its PV. It refuses a device that
// carries data, unless the ConfigMap has `existing: wipe`.
func (c *Controller) offer(ctx context.Context, t target, report func(disk.Progress)) error {
	if err := c.wipeNew(ctx, &t, report); err != nil {
		return err
	}
	return c.create(ctx, t)
}

// wipeNew wipes a device without a PV, and sets the name of its PV. It does not wipe a device
// again, and then restores the former name.
func (c *Controller) wipeNew(ctx context.Context, t *target, report func(disk.Progress)) error {
	d, s := t.device, c.unlessTaken(t.device, t.spec)
	note, clean := c.wipedBefore(d)
	if clean && note.name != "" {
		t.name = note.name
	}
	if other, err := live.PV(ctx, c.Client, t.name); err != nil {
		return err
	} else if other != nil && excludesNode(other, t.node) { // of a node whose name begins like this one's
		t.name = hashedName(t.name, d.Path)
	}
	if err := c.mayWipe(ctx, d, s); err != nil {
		return err
	}
	if clean {
		if found, err := c.Devices.Probe(ctx, d, s.wipe); err != nil {
			return err
		} else if !found.Found() {
			return c.takeDisk(ctx, *t)
		}
	}
	x, err := c.Devices.Open(d)
	if errors.Is(err, disk.ErrBusy) {
		c.keepFromOthers(ctx, d)
	}
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
	return c.wipe(ctx, x, *t, "", report)
}

// mayWipe refuses a device that carries data. It opens the device to read only: closing a
// device that was open to be written makes udev probe it once more.
func (c *Controller) mayWipe(ctx context.Context, d disk.Device, s *spec) error {
	found, err := c.Devices.Probe(ctx, d, s.wipe)
	if err == nil && found.Found() && !s.existing {
		return refusal(d, found, s)
	}
	return err
}

// checkEmpty refuses a device that carries data, unless the ConfigMap allows to wipe it. It reads
// more than mayWipe, because the device is open exclusively by now.
func (c *Controller) checkEmpty(ctx context.Context, x Exclusive, d disk.Device, s *spec) error {
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
	if s.taken != "" {
		return fmt.Errorf("%w: %s carries %s, %s. It is not wiped: take the disk out of %s of ConfigMap %s, or wipe "+
			"it by hand", errRefused, describe(d), found, s.taken, keyFilter, s.configMap)
	}
	if s.unknown != "" {
		return fmt.Errorf("%w: %s carries %s, and the disk of PV %s, which has a claim, is not known: it may be this one. "+
			"Attach or confirm the disk of that PV, or wipe this device by hand", errRefused, describe(d), found, s.unknown)
	}
	return fmt.Errorf("%w: %s carries %s. It is not wiped and not offered: set %s: %s in ConfigMap %s, "+
		"or wipe the device by hand", errRefused, describe(d), found, keyExisting, existingWipe, s.configMap)
}

// describe returns the path, size and ID of a device, for messages.
func describe(d disk.Device) string {
	if d.ID == "" {
		return fmt.Sprintf("%s (%s)", d.Path, contract.Size(d.Bytes))
	}
	return fmt.Sprintf("%s (%s, %s)", d.Path, contract.Size(d.Bytes), d.ID)
}

// create makes the PV of a wiped device. If a PV of another device has its name, it adds a hash.
func (c *Controller) create(ctx context.Context, t target) error {
	d := t.device
	for _, name := range []string{t.name, hashedName(t.name, d.Path)} {
		pv := newPV(name, d, t.spec, t.node)
		_, err := c.Client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
		if err == nil {
			c.forget(d.Number) // a claim may have the PV before the next pass
			c.forgetTaken(d.Number)
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
		if n, err := c.Devices.Resolve(localPath(there)); err == nil && n == d.Number && !excludesNode(there, t.node) {
			return nil
		}
	}
	return errors.New("the names of its PV are taken by PVs of other devices: " + t.name)
}

// release is the work that wipes the device of a Released PV and then deletes the PV, with its UID.
// The next pass offers the device. A wipe that fails leaves the PV Released.
func (c *Controller) release(ctx context.Context, t target, report func(disk.Progress)) error {
	if err := c.wipeReleased(ctx, t, report); err != nil {
		return err
	}
	return c.deleteWiped(ctx, t)
}

func (c *Controller) wipeReleased(ctx context.Context, t target, report func(disk.Progress)) error {
	x, err := c.Devices.Open(t.device)
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
	if err := c.beginWipe(ctx, t.pv); err != nil {
		return err
	}
	if err := c.wipe(ctx, x, t, now.ResourceVersion, report); err != nil {
		return err
	}
	c.endWipe(ctx, t.pv.UID)
	return nil
}

// deleteWiped deletes a PV whose disk was wiped. The API server refuses that if the PV changed
// after it was read: an administrator can give a Released PV to another claim.
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

// wipe wipes and verifies a device, and notes that. version is that of its PV, if it has one.
func (c *Controller) wipe(
	ctx context.Context, x Exclusive, t target, version string, report func(disk.Progress),
) error {
	began := time.Now()
	if err := x.Wipe(ctx, t.spec.wipe, report); err != nil {
		return &wipeError{err}
	}
	c.noteWiped(t, version)
	topic := "wiped"
	if t.pv == nil {
		topic = t.device.Path + began.String() // each is an event of its own
	}
	c.note(ctx, t.pv, topic, events.DeviceWiped, fmt.Sprintf("%s is wiped (%s) and verified, in %s",
		describe(t.device), t.spec.wipe, time.Since(began).Round(10*time.Millisecond)))
	return nil
}
