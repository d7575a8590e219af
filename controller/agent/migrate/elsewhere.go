package migrate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A cluster may be lost while a PV is replaced, and another one be built on its disks. Its PVs and
// claims do not exist there: the journal's new PV would be Released at once, and a journal that is
// cancelled because the old PV is gone would take the record of an adopted volume with it. So a
// migration of another cluster waits until recovery, or a person, has bound a PV of this cluster to
// the volume. A successor that is known by its source and claimRef alone (isStripped) is of this
// cluster: no claim of another one has that UID.

// ofOtherCluster is the reason in the plan.
const ofOtherCluster = "it began in another cluster, whose PV and claim do not exist here: see docs/recover.md"

// isElsewhere reports whether a record is of another cluster.
func (m *Migrator) isElsewhere(pool *volume.Pool, r record.Record) bool {
	here := m.PVs.At(pool).Cluster
	return here != "" && r.Cluster != "" && r.Cluster != here
}

// endElsewhere ends a migration of another cluster, once a PV of this one names the volume and is
// Bound to a claim, as the API server has both. It logs errors; the next check tries again.
func (m *Migrator) endElsewhere(ctx context.Context, f candidate) {
	pv, err := m.boundHere(ctx, f)
	if err == nil && pv == nil || ctx.Err() != nil {
		return
	}
	if err == nil {
		isNew := (pv.Spec.CSI != nil) == (f.v.Migration.To == toCSI)
		err = f.pool.AdvanceMigration(f.v.Name, record.EndMigration(string(pv.UID), isNew))
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot end a migration of another cluster; trying again", "PV", f.PV)
		return
	}
	klog.FromContext(ctx).Info("Ended a migration that began in another cluster: a PV of this one has the "+
		"volume", "PV", f.PV, "directory", f.Directory)
}

// boundHere returns the PV that has the volume in this cluster, nil if there is none.
func (m *Migrator) boundHere(ctx context.Context, f candidate) (*corev1.PersistentVolume, error) {
	pv, err := live.PV(ctx, m.Client, f.PV)
	if pv == nil || err != nil || pv.Status.Phase != corev1.VolumeBound || pv.DeletionTimestamp != nil {
		return nil, err
	}
	claim, err := live.ClaimOf(ctx, m.Client, pv)
	if claim == nil || err != nil || claim.Spec.VolumeName != pv.Name || claim.DeletionTimestamp != nil {
		return nil, err
	}
	// The record names the claim of the lost cluster, so Validate returns an error beside the volume.
	pool, v, _ := m.PVs.Validate(ctx, pv, true)
	if pool != f.pool || v.Name != f.v.Name {
		return nil, nil
	}
	return pv, nil
}
