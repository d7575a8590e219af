package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	// pollEvery is the pause between two reads while other controllers act.
	pollEvery = 100 * time.Millisecond
	// bindWithin is how long the controller-manager may take to bind until the migration stops.
	bindWithin = time.Minute
	// atOnce is how many steps may follow each other without a pause; a migration has fewer.
	atOnce = 20
	// failsFor is how long an error may last after the cutover before the migration stops
	// with an event, and retryEvery the pause between two attempts.
	failsFor   = 10 * time.Second
	retryEvery = time.Second
)

type state int

const (
	again state = iota // the next step can follow at once
	waits              // another controller has to act
	over
)

// stopped is why a migration cannot continue until a person acts.
type stopped string

func (s stopped) Error() string { return string(s) }

// begin writes the journal of a candidate that is Ready, and the record if there is none.
func (m *Migrator) begin(f candidate) (*job, error) {
	journal, err := journalOf(f.To, f.pv, f.next)
	if err != nil {
		return nil, err
	}
	if f.v.State == "" {
		pool, r, err := m.PVs.Adopt(f.pv, journal)
		if err != nil {
			return nil, fmt.Errorf("take over PV %s: %w", f.PV, err)
		}
		return readJob(pool, r)
	}
	r, err := f.pool.BeginMigration(f.v.Name, journal)
	if err != nil {
		return nil, err
	}
	return readJob(f.pool, r)
}

// move runs a migration to its end, or until a person has to act. Before the cutover it
// cancels the migration if the API server refuses a step. After that the old PV may be
// gone: any error that lasts stops the migration, with an event.
func (m *Migrator) move(ctx context.Context, j *job) error {
	begin := time.Now()
	var failing time.Time // since when
	for n := 0; ctx.Err() == nil; n++ {
		s, err := m.next(ctx, j)
		if ctx.Err() != nil {
			break // the error may be that, and is no reason to write anything
		}
		pause := pollEvery
		var why stopped
		switch {
		case err == nil:
			failing = time.Time{}
		case errors.As(err, &why):
			return m.stop(ctx, j, string(why))
		case errors.As(err, new(untaken)) && j.step == record.MigrationCutover:
			return m.stop(ctx, j, fmt.Sprintf("%v; correct what changes it (docs/migration.md)", err))
		case errors.Is(err, errCancelled):
			return err
		case apierrors.IsConflict(err):
			s = waits // the next read shows what another writer changed
		case j.step == record.MigrationPrepared:
			return err
		case failing.IsZero() && j.stopped == "":
			failing = time.Now()
			fallthrough
		case j.stopped == "" && time.Since(failing) < failsFor:
			s, pause = waits, retryEvery
		default:
			return m.stop(ctx, j, fmt.Sprintf("%v; see docs/migration.md", err))
		}
		switch {
		case s == over:
			return nil
		case s == again && n < atOnce:
			continue
		case time.Since(begin) > bindWithin:
			return m.stop(ctx, j, "the controller-manager has not bound PV and claim yet; check that it runs")
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return ctx.Err()
}

// next reads the PV and does the next step of a migration.
func (m *Migrator) next(ctx context.Context, j *job) (state, error) {
	pv, err := live.PV(ctx, m.Client, j.old.Name)
	switch {
	case err != nil:
		return over, err
	case pv == nil && j.step == record.MigrationPrepared:
		return m.cancel(ctx, j, nil, "the PV was deleted")
	case j.step == record.MigrationCutover && !unchanged(j, pv) && !m.PVs.Serves(j.new):
		j.stranded = true
		return over, stopped(unserved(j.to))
	case pv == nil:
		return again, m.create(ctx, j.new)
	case j.isNew(pv):
		return m.complete(ctx, j, pv)
	case pv.UID != j.old.UID && j.step == record.MigrationPrepared:
		return m.cancel(ctx, j, nil, "the PV was deleted and created again")
	case pv.UID != j.old.UID && pv.Status.Phase == corev1.VolumeBound:
		return over, stopped(fmt.Sprintf("PV %s (UID %s) is bound to claim %s and is not the one that this migration "+
			"creates: keep it, and compare it with the one in the journal (docs/migration.md)", pv.Name, pv.UID, reference(pv)))
	case pv.UID != j.old.UID && (pv.Status.Phase == "" || pv.Status.Phase == corev1.VolumePending):
		return waits, nil // it may be Bound in a moment, and the event would still ask to delete it then
	case pv.UID != j.old.UID:
		return over, stopped(fmt.Sprintf("PV %s (UID %s) is not one of this migration; "+
			"save the data that it names, and delete it: the migration then continues", pv.Name, pv.UID))
	case pv.DeletionTimestamp != nil && j.step == record.MigrationCutover:
		return m.finalize(ctx, j, pv)
	}
	return m.cutOver(ctx, j, pv)
}

// cutOver does the steps from the unchanged old PV to its deletion. It checks once more
// whether the PV may be migrated, and cancels the migration if not.
func (m *Migrator) cutOver(ctx context.Context, j *job, pv *corev1.PersistentVolume) (state, error) {
	if !moves(m.Mode) {
		return m.cancel(ctx, j, pv, "migration was turned off")
	}
	if edited(j.old, pv) {
		return m.cancel(ctx, j, pv, "the PV was edited")
	}
	s := m.subject(ctx, pv, true)
	if to, _, verdict, reason := m.node(ctx, true).verdict(s); verdict != Ready || to != j.to {
		return m.cancel(ctx, j, pv, fmt.Sprintf("%s: %s", verdict, reason))
	}
	switch {
	case pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return again, m.unlessRefused(ctx, j, pv, m.retainOnce(ctx, j, pv))
	case j.step == record.MigrationPrepared:
		if err := m.advance(ctx, j, record.CutOver()); err != nil {
			return over, unwritten(err)
		}
		j.step = record.MigrationCutover
		return again, nil
	}
	if err := m.admitNew(ctx, j.new); err != nil {
		return over, m.unlessRefused(ctx, j, pv, err)
	}
	m.announce(ctx, j, s.claim)
	return again, m.unlessRefused(ctx, j, pv, m.remove(ctx, pv))
}

// retainOnce is retain, and returns an untaken error if the PV got the policy before in this run.
func (m *Migrator) retainOnce(ctx context.Context, j *job, pv *corev1.PersistentVolume) error {
	if j.retained {
		return untaken{pv.Name, fmt.Sprintf("its reclaim policy is %s again", pv.Spec.PersistentVolumeReclaimPolicy)}
	}
	err := m.retain(ctx, pv)
	j.retained = err == nil
	return err
}

// unlessRefused cancels the migration if err is an answer by which the API server does not admit a
// step of it. It returns err otherwise. The old PV is there.
func (m *Migrator) unlessRefused(ctx context.Context, j *job, pv *corev1.PersistentVolume, err error) error {
	if err == nil {
		return nil
	}
	if err = m.refuse(ctx, pv, j.to, err); !errors.Is(err, errCancelled) {
		return err
	}
	_, err = m.cancel(ctx, j, pv, m.refusals[pv.Name].reason)
	return err
}

// finalize removes the finalizers of the deleted old PV. A deletion cannot be reversed, so
// the migration can only go forward.
func (m *Migrator) finalize(ctx context.Context, j *job, pv *corev1.PersistentVolume) (state, error) {
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return again, m.retainOnce(ctx, j, pv)
	}
	if others := otherFinalizers(pv); len(others) > 0 {
		return over, stopped(fmt.Sprintf("PV %s was deleted, and finalizers of other controllers keep it: %q; the "+
			"migration continues when they are gone",
			pv.Name, others))
	}
	return again, m.release(ctx, pv)
}

// complete does the steps from the new PV to the end.
func (m *Migrator) complete(ctx context.Context, j *job, pv *corev1.PersistentVolume) (state, error) {
	if pv.DeletionTimestamp != nil {
		return over, stopped(fmt.Sprintf("the new PV %s is being deleted; when it is gone the agent creates it again",
			pv.Name))
	}
	claim, err := m.claim(ctx, pv, true)
	if err != nil {
		return over, err
	}
	note := ""
	switch phase := pv.Status.Phase; {
	case phase == "" || phase == corev1.VolumePending:
		return waits, nil
	case claim == nil && j.old.Status.Phase == corev1.VolumeBound:
		note = fmt.Sprintf("claim %s was deleted during the migration; PV %s stays, with the policy Retain and all data: "+
			"use it, or set its policy to Delete to delete it with its volume", reference(pv), pv.Name)
	case claim == nil:
	case phase != corev1.VolumeBound:
		return waits, nil
	case claim.Status.Phase != corev1.ClaimBound && claim.Annotations[contract.AnnMigrated] != string(pv.UID) &&
		!j.touched:
		err := m.touch(ctx, claim, pv)
		// Once is enough: the controller-manager checks all claims every 15 seconds.
		if j.touched = err == nil || live.Permanent(err); j.touched {
			err = nil
		}
		return waits, err
	case claim.Status.Phase != corev1.ClaimBound:
		return waits, nil
	}
	policy, has := j.policy(pv)
	switch {
	case note != "" && pv.Annotations[contract.AnnPolicy] != "":
		return again, m.keep(ctx, pv)
	case note == "" && !has && !j.restored:
		err := m.setPolicy(ctx, pv, policy)
		j.restored = err == nil
		return again, err
	}
	return over, m.finish(ctx, j, pv, claim, note)
}

func (m *Migrator) finish(ctx context.Context, j *job, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
	note string) error {
	var err error
	if j.to == toHostPath {
		foreign := m.PVs.IsForeign(pv)
		if err = m.advance(ctx, j, record.FinishReturn(string(pv.UID), foreign)); foreign {
			m.PVs.SweepSoon() // so that the plan shows it
		}
	} else {
		err = m.advance(ctx, j, record.FinishMigration(string(pv.UID), note))
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Migrated", "PV", pv.Name, "to", j.to, "pool", j.pool.Path(), "directory", j.volume, "note",
		note)
	m.finished(ctx, j, pv, claim, note)
	return nil
}

// advance writes a step to the journal, unless the agent ends: its pools are about to be closed.
func (m *Migrator) advance(ctx context.Context, j *job, by record.MigrationChange) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return j.advance(by)
}

// unwritten stops a migration whose journal cannot be written, because the disk is full for
// example. It returns err if the pool is not ready, which package monitor reports, or if another
// call ended the migration.
func unwritten(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, volume.ErrNotReady) || errors.Is(err, volume.ErrConflict) {
		return err
	}
	return stopped(fmt.Sprintf("its journal cannot be written: %v", err))
}

func reference(pv *corev1.PersistentVolume) string {
	if ref := pv.Spec.ClaimRef; ref != nil {
		return ref.Namespace + "/" + ref.Name
	}
	return ""
}
