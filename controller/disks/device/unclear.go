package device

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
)

// unclear decides about a device that may not be the disk of the PV that names it. Nothing is written. A PV that no claim has is
// withdrawn, and the device is offered again if it carries nothing.
func (p *passing) unclear(s *slot, pv placed, r *Report) {
	r.State, r.Why, r.Confirm = Unclear, pv.Why, confirmation(s.device)
	switch {
	case free(pv.PersistentVolume) && p.withdraw(pv.PersistentVolume, pv.Why):
		r.State = ""
		return
	case pv.Status.Phase == corev1.VolumeBound:
		r.State = Bound
	}
	fix := "attach the disk of the PV"
	if r.Confirm != "" {
		fix = fmt.Sprintf("if this is the disk of the PV, confirm it: kubectl annotate pv %s %s", pv.Name, r.Confirm)
	}
	p.warnPV(p.ctx, pv.PersistentVolume, "unclear "+pv.Why, events.DeviceUnclear,
		fmt.Sprintf("the disk is not wiped, and not offered to another claim: %s; %s", pv.Why, fix))
}

// unknownDisk returns the PV of a claim whose disk is not known, nil if there is none: it may be any of the node's.
func (p *passing) unknownDisk(gone []absent) *corev1.PersistentVolume {
	unknown := func(pv *corev1.PersistentVolume) bool { return !free(pv) && recorded(pv).LastingID() == "" }
	for _, a := range gone {
		if unknown(a.PersistentVolume) {
			return a.PersistentVolume
		}
	}
	for _, s := range p.slots {
		for _, pv := range s.pvs {
			if pv.Answer != identity.Ours && unknown(pv.PersistentVolume) {
				return pv.PersistentVolume
			}
		}
	}
	return nil
}
