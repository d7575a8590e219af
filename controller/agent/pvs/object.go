package pvs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// object returns what identity.WhichObject needs of a PV and of the record that names it. The time
// of an adopted volume is unknown: its record is younger than the volume, and a directory that was
// copied to another disk is as young as the PV that is applied with it.
func (p *PVs) object(pv *corev1.PersistentVolume, r record.Record) identity.Object {
	o := identity.Object{
		Recorded: r.PVUID, RecordedCluster: r.Cluster, NeverBound: r.State == record.Ready, Made: r.Created,
		UID: string(pv.UID), Created: pv.CreationTimestamp.Time, Cluster: p.Node.Cluster(),
		Successor: succeeds(pv, r.Migration.Finished()),
		Confirmed: pv.UID != "" && pv.Annotations[contract.AnnDeleteVolume] == string(pv.UID),
	}
	if r.Adopted {
		o.Made = time.Time{}
	}
	return o
}

// succeeds reports whether a PV replaced another one in a migration that is done.
func succeeds(pv *corev1.PersistentVolume, m *record.Migration) bool {
	if m == nil || !identity.CreatedBetween(pv.CreationTimestamp.Time, m.Began, m.Changed) {
		return false
	}
	var old corev1.PersistentVolume
	return json.Unmarshal(m.Old, &old) == nil && old.UID != "" && pv.Annotations[contract.AnnReplaces] == string(old.UID)
}

// recognize sets the binding's UID if the volume is this PV's. It reads the claim of a Bound PV
// from the API server if record and PV do not agree. The error is an errPending while the claim
// is not bound yet, or an ErrNotReady.
func (p *PVs) recognize(ctx context.Context, pv *corev1.PersistentVolume, r record.Record, b *volume.Binding) error {
	found := identity.WhichObject(p.object(pv, r))
	if found.Answer == identity.Ours && (r.PVUID == "" || r.PVUID == string(pv.UID)) {
		b.UID = string(pv.UID)
		return nil
	}
	if pv.Status.Phase != corev1.VolumeBound {
		return nil
	}
	claim, err := live.ClaimOf(ctx, p.Client, pv)
	switch {
	case claim == nil || err != nil:
		return err
	case claim.Spec.VolumeName == "":
		return errPending
	case claim.Spec.VolumeName == pv.Name:
		b.UID, b.Bound = string(pv.UID), true
	}
	return nil
}

// mayDelete returns a Kept unless the volume of the record is this PV's.
func (p *PVs) mayDelete(pv *corev1.PersistentVolume, o identity.Object) error {
	if found := identity.WhichObject(o); found.Answer != identity.Ours {
		return Kept{fmt.Sprintf("it keeps the volume: %s; to keep the data, set the reclaim policy to Retain, and bind the "+
			"PV to a claim; to delete it, kubectl annotate pv %s %s=%s", found.Why, pv.Name, contract.AnnDeleteVolume, pv.UID)}
	}
	return nil
}

// warnUndeletable records an event if the PV is released with policy Delete but its backend does
// not allow the deletion, or the volume is not this PV's.
func (p *PVs) warnUndeletable(ctx context.Context, pv *corev1.PersistentVolume, why error) {
	if why != nil && contract.Released(pv) && contract.Leaving(pv) {
		p.Events.Warn(ctx, events.PV(pv), "deletes", events.VolumeFailedDelete,
			fmt.Sprintf("node %s: %v", p.Node.Name(), why))
	}
}
