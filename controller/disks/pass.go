package disks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// pass compares devices and PVs once, and returns the time until the next pass. If it cannot read
// everything, it changes nothing.
func (c *Controller) pass(ctx context.Context) (next time.Duration) {
	err := c.compare(ctx)
	c.mu.Lock()
	c.failure = err
	c.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "The devices and their PVs were not compared")
		}
		c.failures++
		return min(firstRetry<<min(c.failures-1, 20), c.Interval)
	}
	c.failures = 0
	return c.next()
}

// compare reads, plans and applies the plan.
func (c *Controller) compare(ctx context.Context) error {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, c.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.publish(nil) // a Node of another UID may be registered under its name
		return nil
	} else if err != nil {
		return fmt.Errorf("read Node %s: %w", c.node, err)
	}
	s, err := c.readSpec(ctx, node)
	if err != nil {
		c.warn(ctx, nil, "spec", events.DeviceConfigInvalid, err.Error())
		return err
	}
	c.warnOfSlots(ctx, s)
	c.listed = time.Now()
	leases := c.leasesOfJobs()
	pvs, err := c.ownPVs(ctx)
	if err != nil {
		return err
	}
	f := found{node: node, spec: s, pvs: pvs, gone: c.goneFrom, now: time.Now()}
	if err := f.readDevices(c.Devices); err != nil {
		err = fmt.Errorf("%s of ConfigMap %s/%s: %w", keyDir, c.Namespace, s.configMap, err)
		c.warn(ctx, nil, "dir", events.DeviceConfigInvalid, err.Error())
		return err
	}
	if err := c.releaseLeases(ctx, leases, f); err != nil {
		return err
	}
	c.noteMissing(ctx, f)
	c.observe(s)
	f.partly = c.wipedPartly(pvs)
	decisions := plan(f)
	c.goneFrom, c.readAt = map[types.UID]time.Time{}, f.now
	for _, d := range decisions {
		if !d.since.IsZero() {
			c.goneFrom[d.pv.UID] = d.since
		}
	}
	c.publish(c.apply(ctx, decisions))
	c.warnStuck(ctx)
	return nil
}

// warnOfSlots records an event if the kubelet would format another disk that is at the path of a
// PV, which needs no mistake: the names are those of slots.
func (c *Controller) warnOfSlots(ctx context.Context, s *spec) {
	if s == nil || !s.namesSlots() {
		return
	}
	c.warn(ctx, nil, "slots "+s.dir, events.DeviceConfigInvalid,
		fmt.Sprintf("%s of ConfigMap %s/%s: %s has names of slots, and the kubelet formats a disk without a "+
			"filesystem that is at the path of a claim: a disk that replaces another, or one whose reads fail. Use names "+
			"with the IDs of the disks, such as those in /dev/disk/by-id",
			keyDir, c.Namespace, s.configMap, s.dir))
}

// noteMissing records an event if the directory does not exist, and has it watched anew: udev removes
// a directory with its last link, and makes another one.
func (c *Controller) noteMissing(ctx context.Context, f found) {
	missing := ""
	if f.missing {
		missing = f.spec.dir
		c.unobserve()
		c.warn(ctx, nil, "dir "+missing, events.DeviceConfigInvalid, fmt.Sprintf("%s of ConfigMap %s/%s: %s does not exist: "+
			"the node has none of these devices, or the directory is not mounted into the container",
			keyDir, c.Namespace, f.spec.configMap, missing))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = missing
}

// readDevices reads the devices that the ConfigMap selects, and those at the paths of PVs. A
// directory that does not exist has none. The error is that of the directory.
func (f *found) readDevices(devices Devices) (err error) {
	if f.spec != nil {
		f.devices, err = devices.List(f.spec.dir, f.spec.filter)
		f.missing = errors.Is(err, fs.ErrNotExist)
		if err != nil && !f.missing {
			return err
		}
	}
	f.at = map[string]disk.Device{}
	for _, pv := range f.pvs {
		f.at[localPath(pv)] = devices.At(localPath(pv))
	}
	return nil
}

// readSpec reads and parses the ConfigMap of the node, nil if it has none.
func (c *Controller) readSpec(ctx context.Context, node *corev1.Node) (*spec, error) {
	name, has := node.Annotations[AnnSpec]
	if !has {
		name = c.ConfigMap
	}
	if name == "" {
		return nil, nil
	}
	cm, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", c.Namespace, name, err)
	}
	s, err := parseSpec(cm)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %s", c.Namespace, name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return s, nil
}

// ownPVs returns the PVs with the node's label. One whose affinity requires another hostname is
// among them: the hostname of a Node can change, and whose decides.
func (c *Controller) ownPVs(ctx context.Context) (own []*corev1.PersistentVolume, err error) {
	_, err = live.ListPVs(ctx, c.Client, c.selector(), func(pv *corev1.PersistentVolume) bool {
		if pv.Spec.Local != nil {
			own = append(own, pv)
		}
		return true
	})
	return own, err
}

// apply carries out the decisions, and returns the reports.
//
// The decisions come from an earlier read. Before the first write, offer and release therefore open
// the device exclusively, prove that it is the device that was found, and read live that the PV is
// unchanged and that no other PV or claim is on the device. The API server deletes no PV that
// changed since.
func (c *Controller) apply(ctx context.Context, decisions []decision) (reports []Report) {
	for _, d := range decisions {
		switch d.action {
		case stop:
			c.end(d.device.Number)
		case keep, withdraw:
			c.end(d.device.Number)
			c.forget(d.device.Number)
		case check:
			c.forget(d.device.Number)
			c.endOthers(d)
			if c.checkDue(d.pv) {
				c.begin(ctx, d, c.check)
			}
		case release:
			c.begin(ctx, d, c.release)
		case offer:
			c.begin(ctx, d, c.offer)
		}
		if d.action == withdraw && d.holds {
			c.noteTaken(d.device, "of PV "+d.pv.Name+", which had a claim before")
		}
		withdrawn := d.action == withdraw && c.withdraw(ctx, d.pv, d.why)
		for _, w := range d.warnings {
			switch {
			case withdrawn && w.reason != events.DeviceConfigDiffers:
			case w.normal:
				c.note(ctx, d.pv, w.topic, w.reason, w.message)
			default:
				c.warn(ctx, d.pv, w.topic, w.reason, w.message)
			}
		}
		if withdrawn && d.holds { // a device without a report is forgotten
			d.report.PV, d.report.Confirm = "", ""
		}
		if (!withdrawn || d.holds) && d.report.State != "" {
			reports = append(reports, d.report)
		}
	}
	return reports
}

// withdraw deletes a PV that no claim has, unless it changed since it was read: a claim may have
// it.
func (c *Controller) withdraw(ctx context.Context, pv *corev1.PersistentVolume, why string) bool {
	err := c.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, live.Unchanged(pv))
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "The PV was not withdrawn", "pv", pv.Name)
		return false
	}
	c.note(ctx, pv, "withdrawn", events.DeviceWithdrawn, "the PV is withdrawn: "+why)
	return true
}

// warn records a warning event about a PV, or about the Node if it is nil.
func (c *Controller) warn(ctx context.Context, pv *corev1.PersistentVolume, topic, reason, message string) {
	c.Events.Warn(ctx, c.object(pv), reason+topic, reason, message)
}

// note records a normal event about a PV, or about the Node if it is nil.
func (c *Controller) note(ctx context.Context, pv *corev1.PersistentVolume, topic, reason, message string) {
	c.Events.Note(ctx, c.object(pv), reason+topic, reason, message)
}

func (c *Controller) object(pv *corev1.PersistentVolume) corev1.ObjectReference {
	if pv == nil {
		return *events.Node(c.node)
	}
	return events.PV(pv)
}
