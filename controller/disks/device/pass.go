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

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// pass compares devices and PVs once, and returns when the next pass has to be made. A pass that
// cannot read everything changes nothing.
func (c *Controller) pass(ctx context.Context) (next time.Duration) {
	err := c.compare(ctx)
	c.noteFailure(err)
	if err != nil {
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
	leases := c.leasesOfJobs()
	pvs, err := c.ownPVs(ctx)
	if err != nil {
		return err
	}
	if err := c.releaseLeases(ctx, leases, pvs); err != nil {
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
	c.forgetPartly(pvs)
	slots, gone := match(node, devices, pvs)
	p := &passing{Controller: c, ctx: ctx, node: node, spec: s, slots: slots, names: map[string]int{}, byPath: map[string]disk.Number{}}
	p.spec = s.without(p.unknownDisk(gone))
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

// ownPVs returns the PVs with the node's label. One whose affinity requires another hostname is among them: the hostname of a
// Node can change, and whose decides.
func (c *Controller) ownPVs(ctx context.Context) (own []*corev1.PersistentVolume, err error) {
	_, err = live.ListPVs(ctx, c.Client, c.selector(), func(pv *corev1.PersistentVolume) bool {
		if pv.Spec.Local != nil {
			own = append(own, pv)
		}
		return true
	})
	return own, err
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

func (p *passing) run(pvs []*corev1.PersistentVolume, gone []absent) {
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
				p.warnPV(p.ctx, other.PersistentVolume, "same", events.DeviceError,
					fmt.Sprintf("%s is the device of PV %s too", localPath(other.PersistentVolume), r.PV))
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
func (p *passing) owned(s *slot, pv placed, r *Report) {
	n := s.device.Number
	p.differs(pv.PersistentVolume)
	if pv.Answer != identity.Ours && s.device.Err == nil {
		p.end(n)
		p.forget(n)
		p.unclear(s, pv, r)
		return
	}
	switch pv.Status.Phase {
	case corev1.VolumeBound:
		p.end(n)
		p.forget(n)
		r.State = Bound
		if p.partly(pv.UID) {
			r.Why = partlyWiped
			p.warnPV(p.ctx, pv.PersistentVolume, "partly", events.DeviceError, r.Why)
		}
	case corev1.VolumeReleased:
		p.released(s, pv.PersistentVolume, r)
	case corev1.VolumeFailed:
		p.end(n)
		r.State, r.Why = Error, "the PV has the phase Failed: "+pv.Status.Message
	default:
		p.available(n, pv.PersistentVolume, r)
	}
}

// available decides about a device whose PV waits for a claim. A PV that was Released, and whose wipe was begun, is withdrawn: a
// part of the former tenant's data may be left. The wipe is ended at once, for a claim may get the PV before it is withdrawn.
func (p *passing) available(n disk.Number, pv *corev1.PersistentVolume, r *Report) {
	p.end(n)
	p.forget(n)
	r.State = Available
	switch {
	case p.partly(pv.UID) && !free(pv):
		r.State, r.Why = Error, partlyWiped
		p.warnPV(p.ctx, pv, "partly", events.DeviceError, r.Why)
	case p.partly(pv.UID):
		if p.withdraw(pv, "its disk was being wiped when its claimRef was removed; it is offered again once it is wiped") {
			r.State = ""
			return
		}
		r.State, r.Why = Error, "the disk was being wiped when the claimRef was removed, and its PV could not be withdrawn"
	case p.spec == nil && p.withdraw(pv, "its node has no ConfigMap of devices any more"):
		r.State = ""
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

// free reports whether a PV waits for a claim and none has it.
func free(pv *corev1.PersistentVolume) bool {
	waits := pv.Status.Phase == corev1.VolumeAvailable || pv.Status.Phase == corev1.VolumePending || pv.Status.Phase == ""
	return waits && pv.Spec.ClaimRef == nil
}

// unowned decides about a device without a PV, which the ConfigMap lists.
func (p *passing) unowned(s *slot, r *Report) {
	d := s.device
	switch {
	case d.Err != nil:
		r.State, r.Why = Error, d.Err.Error()
	case d.ReadOnly:
		r.State, r.Why = Error, "the device is read-only"
	case s.displaced != nil:
		r.State, r.Why = Unclear, fmt.Sprintf("PV %s names it, and was made for another disk: attach that disk, or delete the PV", s.displaced.Name)
	case d.Identity == "" && len(d.Twins) > 0:
		r.State, r.Why = Error, fmt.Sprintf("device %s reports the same ID %s: they may be one disk by two paths. Use multipath, or leave one out of %s",
			d.Twins[0], d.ID, keyFilter)
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

// gone decides about PVs whose disk is not at their path.
func (p *passing) gone(pvs []absent) {
	away := map[types.UID]time.Time{}
	for _, pv := range pvs {
		since, known := p.goneFrom[pv.UID]
		if !known {
			since = time.Now()
		}
		away[pv.UID] = since
		switch {
		case time.Since(since) < absence:
		case free(pv.PersistentVolume):
			if p.withdraw(pv.PersistentVolume, pv.why) {
				continue
			}
		default:
			p.warnPV(p.ctx, pv.PersistentVolume, "gone "+pv.why, events.DeviceGone, pv.why)
		}
		p.reports = append(p.reports, Report{Device: localPath(pv.PersistentVolume), State: Gone, Why: pv.why, PV: pv.Name})
	}
	p.goneFrom = away
}

// withdraw deletes a PV that no claim has, unless one gets it meanwhile. It does nothing to a PV that another node may have made.
func (p *passing) withdraw(pv *corev1.PersistentVolume, why string) bool {
	if pv.DeletionTimestamp != nil || pv.Spec.ClaimRef != nil || !mine(pv, p.node) {
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
