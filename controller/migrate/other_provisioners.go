package migrate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// A volume of another provisioner has a record only while its PV is a CSI PV of this
// driver, or in a migration: from adopt, before the journal begins, to disown, after the
// hostPath PV is back. In between it is migrated like any other.

// adopt creates the record of a volume of another provisioner, and returns its new
// verdict.
func (m *Migrator) adopt(ctx context.Context, f candidate) (candidate, error) {
	m.step("migrate.adopt")
	if err := m.pvs.Adopt(ctx, f.pv); err != nil {
		return f, fmt.Errorf("take over PV %s: %w", f.PV, err)
	}
	if f = m.node(ctx).candidate(m.subject(ctx, f.pv, true)); f.Verdict != Ready {
		return f, errCancelled
	}
	return f, nil
}

// disown deletes the record of a volume whose PV is one of another provisioner again.
// It does nothing for other PVs. It makes the provisioning loop list the PVs of other
// provisioners, so that the plan shows this one.
func (m *Migrator) disown(j *job, pv *corev1.PersistentVolume) error {
	if !m.pvs.IsForeign(pv) {
		return nil
	}
	if err := j.pool.Disown(j.volume); err != nil {
		return err
	}
	m.pvs.SweepSoon()
	return nil
}

// tidy deletes records that a killed agent left between adopt and the journal, or
// between the journal and disown: those of PVs of other provisioners that are not
// Ready.
func (m *Migrator) tidy(ctx context.Context, all []candidate) {
	for _, f := range all {
		if f.job != nil || f.pv == nil || f.Verdict == Ready || f.v.State == "" || f.pv.Spec.CSI != nil || !m.pvs.IsForeign(f.pv) || !m.mode.moves() {
			continue
		}
		if err := f.pool.Disown(f.v.Name); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot delete the record of a volume of another provisioner; trying again", "PV", f.PV)
		}
	}
}
