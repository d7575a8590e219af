package device

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// apply does what was decided, and returns the reports, with the numbers of their devices.
//
// A decision is as old as what the pass read. Before the first write, offer and release therefore
// open the device exclusively, prove that it is the one that was found, and read from the API server
// that the PV is as it was and no other PV or claim is on the device. The API server withdraws no PV
// that changed since.
func (c *Controller) apply(ctx context.Context, decisions []decision) (reports []Report, numbers map[string]disk.Number) {
	numbers = map[string]disk.Number{}
	for _, d := range decisions {
		switch d.action {
		case stop:
			c.end(d.device.Number)
		case keep, withdraw:
			c.end(d.device.Number)
			c.forget(d.device.Number)
		case release:
			c.begin(ctx, d, c.release(d.target))
		case offer:
			c.begin(ctx, d, c.offer(d.target))
		}
		c.warn(ctx, d.pv, d.warnings)
		if d.action == withdraw && c.withdraw(ctx, d.pv, d.why) {
			continue
		}
		c.warn(ctx, d.pv, d.unwithdrawn)
		if d.report.State == "" {
			continue
		}
		reports = append(reports, d.report)
		if d.since.IsZero() {
			numbers[d.report.Device] = d.device.Number
		}
	}
	return reports, numbers
}

// warn records warnings about a PV, or about the Node if it is nil.
func (c *Controller) warn(ctx context.Context, pv *corev1.PersistentVolume, warnings []warning) {
	for _, w := range warnings {
		if pv == nil {
			c.warnNode(ctx, w.topic, w.reason, w.message)
		} else {
			c.warnPV(ctx, pv, w.topic, w.reason, w.message)
		}
	}
}

// withdraw deletes a PV that no claim has, unless it changed since it was read: a claim may have it.
func (c *Controller) withdraw(ctx context.Context, pv *corev1.PersistentVolume, why string) bool {
	err := c.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, live.Unchanged(pv))
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "The PV was not withdrawn", "pv", pv.Name)
		return false
	}
	c.Events.Note(ctx, events.PV(pv), "withdrawn", events.DeviceWithdrawn, "the PV is withdrawn: "+why)
	return true
}
