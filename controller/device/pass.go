package device

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// pass compares devices and PVs once, and returns when the next pass has to be made. A pass that
// cannot read everything changes nothing.
func (c *Controller) pass(ctx context.Context) (next time.Duration) {
	if err := c.compare(ctx); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "The devices and their PVs were not compared")
		}
		return min(firstRetry, c.Interval)
	}
	return c.next()
}

// compare is a pass.
func (c *Controller) compare(ctx context.Context) error {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, c.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.publish(nil, nil) // the garbage collector deletes its PVs
		return nil
	} else if err != nil {
		return fmt.Errorf("read Node %s: %w", c.node, err)
	}
	s, err := c.readSpec(ctx, node)
	if err != nil {
		c.warnNode(ctx, "spec", events.DeviceConfigInvalid, err.Error())
		return err
	}
	pvs, err := c.ownPVs(ctx, node)
	if err != nil {
		return err
	}
	var devices []disk.Device
	if s != nil {
		if devices, err = disk.List(s.dir, s.filter); err != nil {
			err = fmt.Errorf("%s of ConfigMap %s/%s: %w", keyDir, c.Namespace, s.configMap, err)
			c.warnNode(ctx, "dir", events.DeviceConfigInvalid, err.Error())
			return err
		}
	}
	c.observe(s)
	slots, gone := match(devices, pvs)
	p := &passing{Controller: c, ctx: ctx, node: node, spec: s, slots: slots, names: map[string]int{}, byPath: map[string]disk.Number{}}
	p.run(pvs, gone)
	c.publish(p.reports, p.byPath)
	return nil
}

// readSpec reads the ConfigMap of the node, nil if it has none.
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

// ownPVs returns the PVs of this node's devices. A PV that has the label, and another node's
// affinity or no local path, is left alone.
func (c *Controller) ownPVs(ctx context.Context, node *corev1.Node) (own []*corev1.PersistentVolume, err error) {
	list, err := c.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{LabelSelector: c.selector()})
	if err != nil {
		return nil, fmt.Errorf("list PVs: %w", err)
	}
	for i := range list.Items {
		if pv := &list.Items[i]; pv.Spec.Local != nil && !elsewhere(pv, node) {
			own = append(own, pv)
		}
	}
	return own, nil
}

// passing is one pass.
type passing struct {
	*Controller
	ctx     context.Context
	node    *corev1.Node
	spec    *spec // nil if the node has none
	slots   []*slot
	names   map[string]int // names of PVs, and how many devices have each
	reports []Report
	byPath  map[string]disk.Number // of the reports
}

func (p *passing) run(pvs, gone []*corev1.PersistentVolume) {
	for _, pv := range pvs {
		p.names[pv.Name] += 2 // nothing else can have it
	}
	for _, s := range p.slots {
		if len(s.pvs) == 0 {
			p.names[plainName(p.node.Name, s.device.Path)]++
		}
	}
	for _, s := range p.slots {
		r := Report{Device: s.device.Path, Paths: s.paths, ID: s.device.ID, Bytes: s.device.Bytes}
		if len(s.pvs) > 0 {
			r.PV = s.pvs[0].Name
			p.owned(s, s.pvs[0], &r)
			for _, other := range s.pvs[1:] {
				p.warnPV(p.ctx, other, "same", events.DeviceError, fmt.Sprintf("%s is the device of PV %s too", localPath(other), r.PV))
			}
		} else {
			p.unowned(s, &r)
		}
		if r.State != "" {
			p.reports = append(p.reports, r)
			p.byPath[r.Device] = s.device.Number
		}
	}
	p.gone(gone)
}

// owned decides about a device with a PV.
func (p *passing) owned(s *slot, pv *corev1.PersistentVolume, r *Report) {
	n := s.device.Number
	p.differs(pv)
	switch pv.Status.Phase {
	case corev1.VolumeBound:
		p.end(n)
		r.State = Bound
	case corev1.VolumeReleased:
		p.released(s, pv, r)
	case corev1.VolumeFailed:
		p.end(n)
		r.State, r.Why = Error, "the PV has the phase Failed: "+pv.Status.Message
	default:
		p.end(n)
		p.forget(n)
		r.State = Available
		if p.spec == nil && p.withdraw(pv, "its node has no ConfigMap of devices any more") {
			r.State = ""
		}
	}
}

func (p *passing) released(s *slot, pv *corev1.PersistentVolume, r *Report) {
	r.State = Released
	switch {
	case s.device.Err != nil:
		p.end(s.device.Number)
		r.State, r.Why = Error, s.device.Err.Error()
		p.warnPV(p.ctx, pv, "device", events.DeviceError, r.Why)
	case pv.DeletionTimestamp != nil:
		r.Why = "the PV is being deleted"
	case p.spec == nil:
		r.Why = "the node has no ConfigMap of devices, and so no wipe mode"
		p.end(s.device.Number)
	default:
		p.begin(s.device, pv.UID, p.spec, Released, p.release(s.device, pv, p.spec, p.node))
	}
}

// unowned decides about a device without a PV, which the ConfigMap lists.
func (p *passing) unowned(s *slot, r *Report) {
	d := s.device
	switch {
	case d.Err != nil:
		r.State, r.Why = Error, d.Err.Error()
	case d.ReadOnly:
		r.State, r.Why = Error, "the device is read-only"
	default:
		name := pvName(p.node.Name, d.Path, func(name string) bool { return p.names[name] > 1 })
		r.State = Wiping // until the job has probed it
		p.begin(d, "", p.spec, Wiping, p.offer(d, name, p.spec, p.node))
		return
	}
	p.end(d.Number)
	p.warnNode(p.ctx, "error "+d.Path, events.DeviceError, fmt.Sprintf("%s is not offered: %s", d.Path, r.Why))
}

// differs records an event for a PV that the ConfigMap would make otherwise.
func (p *passing) differs(pv *corev1.PersistentVolume) {
	if p.spec == nil {
		return
	}
	if keys := p.spec.differences(pv); len(keys) > 0 {
		p.warnPV(p.ctx, pv, "differs "+p.spec.configMap+strings.Join(keys, ","), events.DeviceConfigDiffers, fmt.Sprintf(
			"ConfigMap %s/%s has another %s; the PV stays as it is until its claim is deleted", p.Namespace, p.spec.configMap, strings.Join(keys, ", ")))
	}
}

// gone decides about PVs without a device.
func (p *passing) gone(pvs []*corev1.PersistentVolume) {
	away := map[types.UID]time.Time{}
	for _, pv := range pvs {
		since, known := p.goneFrom[pv.UID]
		if !known {
			since = time.Now()
		}
		away[pv.UID] = since
		free := pv.Status.Phase == corev1.VolumeAvailable || pv.Status.Phase == corev1.VolumePending || pv.Status.Phase == ""
		why := fmt.Sprintf("the device %s is gone", localPath(pv))
		switch {
		case time.Since(since) < absence:
		case free && p.withdraw(pv, why):
			continue
		case !free:
			p.warnPV(p.ctx, pv, "gone", events.DeviceGone, why)
		}
		p.reports = append(p.reports, Report{Device: localPath(pv), State: Gone, Why: why, PV: pv.Name})
	}
	p.goneFrom = away
}

// withdraw deletes a PV that no claim has, unless one gets it meanwhile.
func (p *passing) withdraw(pv *corev1.PersistentVolume, why string) bool {
	if pv.DeletionTimestamp != nil || pv.Spec.ClaimRef != nil {
		return false
	}
	err := p.Client.CoreV1().PersistentVolumes().Delete(p.ctx, pv.Name, live.Unchanged(pv))
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(p.ctx).Error(err, "The PV was not withdrawn", "pv", pv.Name)
		return false
	}
	p.Events.Note(p.ctx, events.PV(pv), "withdrawn", events.DeviceWithdrawn, "the PV is withdrawn: "+why)
	return true
}
