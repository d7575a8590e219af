package disks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// takeDisk returns nil if the target may be wiped by the objects of the API server, read live: the
// node has the Lease of a disk that other nodes may reach; no PV but the target's is on the device,
// on what lies above it or below it; the PV has no volumes of a pool; and no claim names the PV. The
// error is disk.ErrBusy otherwise, or that of the API server.
func (c *Controller) takeDisk(ctx context.Context, t target) error {
	if err := c.lease(ctx, t.device); err != nil {
		return err
	}
	var busy error
	var own *corev1.PersistentVolume
	var uses []identity.Use
	if err := live.EachPV(ctx, c.Client, func(other *corev1.PersistentVolume) bool {
		if other.UID == t.uid() {
			own = other
			return true
		}
		if u, ok := identity.UseOfPV(other); ok {
			uses = append(uses, u)
		}
		busy = onDevice(c.Devices, other, t)
		return busy == nil
	}); err != nil {
		return err
	}
	if busy == nil && own != nil {
		busy = holdsPool(own, uses, t)
	}
	if busy != nil {
		return busy
	}
	if err := live.EachClaim(ctx, c.Client, func(claim *corev1.PersistentVolumeClaim) bool {
		if claim.Spec.VolumeName == t.name {
			busy = inUse(t.device, "claim %s/%s names PV %s; delete the claim", claim.Namespace, claim.Name, t.name)
		}
		return busy == nil
	}); err != nil {
		return err
	}
	return busy
}

// holdsPool returns a BusyError if the PV's disk has volumes of a pool: the operator notes on the PV of
// a pool's claim which pool that is. Whether the disk is mounted makes no difference: after a boot
// it is not, and the claim may have been deleted by mistake.
func holdsPool(pv *corev1.PersistentVolume, uses []identity.Use, t target) error {
	text, held := pv.Annotations[contract.AnnHeldPool]
	if !held {
		return nil
	}
	pool, ok := contract.ParseHeldPool(text)
	if !ok {
		return inUse(t.device, "PV %s has the annotation %s=%q, which names no pool; correct it",
			pv.Name, contract.AnnHeldPool, text)
	}
	h := identity.Holder{Pool: pool.Pool, Path: pool.Path, Node: pool.Node}
	if pool.Node == t.node.Name {
		h.Hostname = hostname(t.node)
	}
	if f := h.MayEnd(uses); f.Answer != identity.Ours {
		return inUse(t.device, "PV %s has the volumes of pool %s: %s. If the pool is on another disk by now, remove the "+
			"annotation %s of the PV", pv.Name, pool.Pool, f.Why, contract.AnnHeldPool)
	}
	return nil
}

// onDevice returns a BusyError if a PV may have bytes of the device: it is on the device, on what
// lies above or below, or was made for one of these. It returns nil if the PV is on another device, or
// is another node's and that node does not reach the disk. A PV with the node's label may be on the
// device, whatever hostname it requires.
func onDevice(devices Devices, pv *corev1.PersistentVolume, t target) error {
	d := t.device
	path, labelled, r := localPath(pv), pv.Labels[LabelNodeOlder] == contract.LabelValue(t.node.Name), recorded(pv)
	if shared := d.Shared(); !labelled && r.IsOf(shared) {
		return inUse(d, "PV %s was made for the disk %s, and not by this node: leave the disk out of %s here or there; "+
			"if the PV's node is gone for good, delete the PV", pv.Name, strings.Join(shared, ", "), keyFilter)
	}
	if path == "" || excludesNode(pv, t.node) && !labelled {
		return nil
	}
	if labelled && d.Shares(r.LastingID()) {
		return inUse(d, "PV %s was made for the disk %s, and names %s", pv.Name, r.LastingID(), path)
	}
	n, err := devices.Resolve(path)
	switch {
	case err == nil && devices.Overlap(n, d.Number):
		return inUse(d, "PV %s is on it, at %s", pv.Name, path)
	case err != nil && labelled && sharesAttachment(r, d):
		return inUse(d, "PV %s was made for the disk with the attachment %s, and names %s", pv.Name, r.Attachment, path)
	case err != nil && !labelled && !errors.Is(err, disk.ErrNotADevice) && isBlock(pv):
		return inUse(d, "PV %s is a block volume of this node, and its device %s cannot be read, so it may be this one: "+
			"mount the directory of that path into this container", pv.Name, path)
	}
	return nil
}

// inUse returns a BusyError that names the object which uses the device.
func inUse(d disk.Device, format string, args ...any) error {
	return &disk.BusyError{Path: d.Path, Why: fmt.Sprintf("in use: "+format, args...)}
}

func isBlock(pv *corev1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// stillReleased reads the target's PV live, and returns it if it is the same object, is Released,
// and was made for the device. The error is errEnded otherwise, or that of the API server.
func (c *Controller) stillReleased(ctx context.Context, t target) (*corev1.PersistentVolume, error) {
	pv := t.pv
	now, err := live.PV(ctx, c.Client, pv.Name)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.UID != pv.UID:
		return nil, fmt.Errorf("%w: PV %s is gone", errEnded, pv.Name)
	case now.Status.Phase != corev1.VolumeReleased || localPath(now) != localPath(pv):
		return nil, fmt.Errorf("%w: PV %s is not Released any more", errEnded, pv.Name)
	}
	if f := whose(now, t.device, t.node); f.Answer != identity.Ours {
		return nil, fmt.Errorf("%w: %s", errEnded, f.Why)
	}
	return now, nil
}
