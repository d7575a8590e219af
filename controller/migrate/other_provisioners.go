package migrate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
)

// A volume of another provisioner has a record here only while its PV is ours,
// or about to be: from adopt, before its journal begins, to disown, after its PV
// is that one's again. In between it is moved as any other.

// adopt makes the record of a volume that another provisioner made, and returns
// what is known of it then. The PV is read anew: what was found is minutes old.
func (m *Migrator) adopt(ctx context.Context, f found) (found, error) {
	pv, err := live.PV(ctx, m.client, f.pv.Name)
	if err != nil {
		return f, err
	}
	if pv == nil {
		return f, errGaveUp
	}
	n := m.surroundings(ctx)
	if f = n.found(m.subject(ctx, pv, true)); f.Verdict != Ready {
		klog.FromContext(ctx).V(2).Info("Not taken over for now", "PV", pv.Name, "verdict", f.Verdict, "why", f.Reason)
		return f, errGaveUp
	}
	m.step("migrate.adopt")
	if err := m.loop.Adopt(ctx, pv); err != nil {
		return f, fmt.Errorf("take over PV %s: %w", pv.Name, err)
	}
	if f = n.found(m.subject(ctx, pv, true)); f.Verdict != Ready {
		return f, errGaveUp
	}
	return f, nil
}

// disown forgets the volume of a PV that another provisioner looks after from
// now on, or again. It does nothing where the PV is ours. The loop is asked to
// look for such PVs, so that the plan shows this one.
func (m *Migrator) disown(j *job, pv *corev1.PersistentVolume) error {
	if !class.OfOther(pv) {
		return nil
	}
	if err := j.pool.Disown(j.volume); err != nil {
		return err
	}
	m.loop.Unknown()
	return nil
}

// tidy disowns what an agent that was killed left between two of these steps:
// a record of a PV of another provisioner that is not to be moved now.
func (m *Migrator) tidy(ctx context.Context, all []found) {
	for _, f := range all {
		if f.job != nil || f.Verdict == Ready || f.v.State == "" || f.pv.Spec.CSI != nil || !class.OfOther(f.pv) || !m.mode.moves() {
			continue
		}
		if err := f.pool.Disown(f.v.Name); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot forget a volume of another provisioner yet; trying again", "PV", f.PV)
		}
	}
}
