package disks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// A Lease decides which of the nodes that reach one disk, such as a LUN of a SAN, offers it. A node
// takes the Lease before the first write, and keeps it until it has no PV of the disk any more and
// nothing on it uses the disk: a PV can be removed by force while a pod runs. The Lease has neither
// an owner nor an expiry, because a node that is cut off may go on writing. An administrator deletes
// the Leases of a Node that is gone for good.

// annBoot on a Lease is the boot of the node in which it was taken.
const annBoot = "hostpath-provisioner.kubevirt.io/boot-id"

// leaseName returns the name of the Lease of a disk, by the ID that it has on every node. It is a
// hash, because IDs have characters that names cannot have.
func leaseName(shared string) string {
	sum := sha256.Sum256([]byte(shared))
	return "disk-" + hex.EncodeToString(sum[:20])
}

// lease takes the Lease of each disk that other nodes may reach: the device, or what it lies on. It
// does nothing if the node has it, or if no other node can have the disk. The error is disk.ErrBusy
// if another node has a Lease, or that of the API server.
func (c *Controller) lease(ctx context.Context, d disk.Device) error {
	if d.UnknownMultipath() {
		return fmt.Errorf("%s is a disk of dm-multipath whose name has no ID of the kinds NAA or EUI, so whether "+
			"another node uses it is not known: leave the disk out of %s, or out of multipath if only this node reaches it",
			describe(d), keyFilter)
	}
	for _, shared := range d.Shared() {
		if err := c.leaseOf(ctx, d, shared); err != nil {
			return err
		}
	}
	return nil
}

// keepFromOthers takes the Lease of a disk that the node itself uses, and that has no PV: other nodes
// do not see a mount here, and one with existing: wipe would wipe the disk. It does nothing if another
// node has the Lease. An error is logged only: the next try takes it.
func (c *Controller) keepFromOthers(ctx context.Context, d disk.Device) {
	if err := c.lease(ctx, d); err != nil {
		klog.FromContext(ctx).V(1).Info("The Lease of a disk in use was not taken", "device", d.Path, "why", err)
	}
}

func (c *Controller) leaseOf(ctx context.Context, d disk.Device, shared string) error {
	name := leaseName(shared)
	err := c.createLease(ctx, name, shared)
	switch {
	case err == nil:
		return nil
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("take Lease %s/%s of %s, which other nodes may have too: %w", c.Namespace, name, describe(d), err)
	}
	there, err := c.Client.CoordinationV1().Leases(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Lease %s/%s of %s: %w", c.Namespace, name, describe(d), err)
	}
	if holder := holderOf(there); holder != c.node {
		return inUse(d, "node %q has Lease %s/%s of the disk %s. Leave the disk out of %s on one of the nodes; "+
			"if that node is gone for good, delete the Lease and its PV", holder, c.Namespace, name, shared, keyFilter)
	}
	return nil
}

func (c *Controller) createLease(ctx context.Context, name, diskID string) error {
	_, err := c.Client.CoordinationV1().Leases(c.Namespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{LabelNodeOlder: contract.LabelValue(c.node)},
			Annotations: map[string]string{AnnDisk: diskID, annBoot: c.Devices.Boot()},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &c.node},
	}, metav1.CreateOptions{})
	return err
}

// wipePrefix begins the names of Leases of wipes.
const wipePrefix = "wipe-"

// wipeLease returns the name of the Lease that exists while the disk of a Released PV is wiped:
// from before the first byte until after the last. If the wipe is killed and the PV's claimRef is
// removed, the next process learns from it that the disk is wiped in part. The account may not
// write that on the PV.
func wipeLease(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return wipePrefix + hex.EncodeToString(sum[:20])
}

// beginWipe records that the wipe of the PV's disk begins: in memory, and as a Lease unless the
// role, of an older version, has no Leases.
func (c *Controller) beginWipe(ctx context.Context, pv *corev1.PersistentVolume) error {
	c.mu.Lock()
	c.begun[pv.UID] = true
	c.mu.Unlock()
	err := c.createLease(ctx, wipeLease(pv.UID), recorded(pv).LastingID().String())
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return fmt.Errorf("note that the disk of PV %s is being wiped: %w", pv.Name, err)
}

// endWipe removes the Lease of a wipe. The caller has the disk open exclusively, so the Lease is
// that of its own wipe. If the Lease stays, the disk is wiped once more, and the Lease goes with
// the PV.
func (c *Controller) endWipe(ctx context.Context, uid types.UID) {
	err := c.Client.CoordinationV1().Leases(c.Namespace).Delete(ctx, wipeLease(uid), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		klog.FromContext(ctx).Error(err, "The note of a finished wipe was not removed")
	}
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// leasesOfJobs returns the Leases of disks with a running job, and of those that were wiped and
// have no PV yet. A job that ends after the call has made its PV, or needs no Lease.
func (c *Controller) leasesOfJobs() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	needed := map[string]bool{}
	for _, j := range c.jobs {
		if j.running {
			need(needed, j.device)
		}
	}
	for _, note := range c.clean {
		need(needed, note.device)
	}
	return needed
}

func need(needed map[string]bool, d disk.Device) {
	for _, shared := range d.Shared() {
		needed[leaseName(shared)] = true
	}
}

// left reports whether the node does not use the disk of a Lease: the disk is there, and nothing has
// it open, or it is not there in another boot than the one in which the Lease was taken. A disk that
// is gone may come back to a mount or a pod that is still there.
func (c *Controller) left(ctx context.Context, l *coordinationv1.Lease) bool {
	if strings.HasPrefix(l.Name, wipePrefix) {
		return true // it is about a PV, and not about a disk
	}
	shared := l.Annotations[AnnDisk]
	if l.Name != leaseName(shared) {
		return false // of which disk is not known
	}
	found, err := c.Devices.Idle(shared)
	if err != nil {
		klog.FromContext(ctx).V(1).Info("The Lease of a disk is kept", "lease", l.Name, "why", err)
		return false
	}
	taken, now := l.Annotations[annBoot], c.Devices.Boot()
	return found || taken != "" && now != "" && taken != now
}

// releaseLeases deletes the Leases of disks that the node neither offers nor uses any more, and reads which
// wipes were begun. The caller reads needed, the Leases of jobs, before the PVs.
func (c *Controller) releaseLeases(ctx context.Context, needed map[string]bool, f found) error {
	for _, d := range f.at { // pods write to the disk at the path of their PV, also if it is another one's
		need(needed, d)
	}
	for _, pv := range f.pvs {
		for _, shared := range recorded(pv).Shared() {
			needed[leaseName(shared)] = true
		}
		needed[wipeLease(pv.UID)] = true
	}
	leases := c.Client.CoordinationV1().Leases(c.Namespace)
	list, err := leases.List(ctx, metav1.ListOptions{LabelSelector: c.selector()})
	if apierrors.IsForbidden(err) { // a role of an older version, with which none was taken
		return nil
	} else if err != nil {
		return fmt.Errorf("list Leases of disks: %w", err)
	}
	c.wipes = map[string]bool{}
	for i := range list.Items {
		l := &list.Items[i]
		c.wipes[l.Name] = holderOf(l) == c.node
		if needed[l.Name] || holderOf(l) != c.node || !c.left(ctx, l) {
			continue
		}
		if err := leases.Delete(ctx, l.Name, live.Unchanged(l)); err != nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "The Lease of a disk was not given up", "lease", l.Name)
		}
	}
	return nil
}
