package migrate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// cancel ends a migration before its cutover, and restores the policy of the old PV, nil if gone.
func (m *Migrator) cancel(ctx context.Context, j *job, pv *corev1.PersistentVolume, why string) (state, error) {
	if pv != nil {
		switch err := m.restore(ctx, pv); {
		case errors.As(err, new(untaken)):
			return over, stopped(fmt.Sprintf("it is cancelled (%s), and the PV is not as it was: %v; correct what changes it "+
				"(docs/migration.md)", why, err))
		case err != nil && live.Permanent(err):
			return over, stopped(fmt.Sprintf("it is cancelled (%s), and the API server does not admit that the PV gets its "+
				"policy %s back: %v; the PV has policy Retain until then", why, contract.Policy(pv), err))
		case err != nil:
			return over, err
		}
	}
	if err := m.advance(ctx, j, record.CancelMigration()); err != nil {
		return over, unwritten(err)
	}
	if m.PVs.IsForeign(j.old) {
		m.PVs.SweepSoon() // so that the plan shows it
	}
	klog.FromContext(ctx).Info("Cancelled a migration; the PV is as it was", "PV", j.old.Name, "why", why)
	return over, errCancelled
}

// Errors of migrations that did not finish, after an event or a log line.
var (
	errCancelled = errors.New("the migration is cancelled")
	errStopped   = errors.New("the migration is stopped")
	errHalfway   = errors.New("the old PV may be gone, and the migration is not over")
)

// stop writes to the journal why a migration cannot continue, and records it in the log
// and on the objects, also if the journal cannot be written.
func (m *Migrator) stop(ctx context.Context, j *job, why string) error {
	if why != j.stopped {
		klog.FromContext(ctx).Error(nil, "A migration stopped", "PV", j.old.Name, "why", why)
	}
	m.halted(ctx, j, why)
	if err := m.advance(ctx, j, record.StopMigration(why)); err != nil {
		return errors.Join(errStopped, err)
	}
	return errStopped
}
