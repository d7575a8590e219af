package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	// lookAgain is the pause before the next look at what others have to do.
	lookAgain = 100 * time.Millisecond
	// patience is how long the controller-manager may take to bind, before it
	// is said that it does not.
	patience = time.Minute
)

// state is what a step leaves.
type state int

const (
	again state = iota // there may be a next step at once
	waits              // others have to do something
	over
)

// stopped is why a migration cannot go on until a person acts.
type stopped string

func (s stopped) Error() string { return string(s) }

// begin writes the journal of a volume that may be moved.
func (m *Migrator) begin(f found) (*job, error) {
	old, err := encodePV(f.pv)
	if err != nil {
		return nil, err
	}
	next, err := encodePV(f.next)
	if err != nil {
		return nil, err
	}
	hold, err := f.pool.BeginMigration(f.v.Name, volume.Migration{To: f.To, Old: old, New: next})
	if err != nil {
		return nil, err
	}
	return readJob(f.pool, hold)
}

// move takes a migration as far as it goes: to its end, or to where a person
// has to act.
func (m *Migrator) move(ctx context.Context, j *job) error {
	begin := time.Now()
	for ctx.Err() == nil {
		s, err := m.next(ctx, j)
		var why stopped
		switch {
		case errors.As(err, &why):
			return m.stop(ctx, j, string(why))
		case apierrors.IsConflict(err):
			s = waits // somebody else wrote first; see what
		case apierrors.IsForbidden(err):
			return m.stop(ctx, j, fmt.Sprintf("the API server refuses a step: %v; let the agent do it (docs/migration.md)", err))
		case err != nil:
			return err
		}
		switch {
		case s == over:
			return nil
		case s == again:
			continue
		case time.Since(begin) > patience:
			return errors.Join(errUnbound, m.stop(ctx, j, "the controller-manager has not bound PV and claim yet; see whether it runs"))
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
	return ctx.Err()
}

// next looks where a migration is, and does the one step that comes next.
func (m *Migrator) next(ctx context.Context, j *job) (state, error) {
	pv, err := live.PV(ctx, m.client, j.old.Name)
	switch {
	case err != nil:
		return over, err
	case pv == nil && j.step == record.MigrationPrepared:
		return m.giveUp(ctx, j, nil, "somebody deleted the PV")
	case pv == nil:
		return again, m.create(ctx, j.new)
	case j.isNew(pv):
		return m.settle(ctx, j, pv)
	case pv.UID != j.old.UID && j.step == record.MigrationPrepared:
		return m.giveUp(ctx, j, nil, "somebody made the PV anew")
	case pv.UID != j.old.UID:
		return over, stopped(fmt.Sprintf("there is a PV %s that is not the one of this migration (UID %s); "+
			"save what it names, and delete it: the migration then goes on", pv.Name, pv.UID))
	case pv.DeletionTimestamp != nil && j.step == record.MigrationCutover:
		return m.let(ctx, pv)
	}
	return m.cutOver(ctx, j, pv)
}

// cutOver goes from the old PV, unharmed, to its deletion. It is the last look
// at whether the volume may be moved; what was true before may not be now.
func (m *Migrator) cutOver(ctx context.Context, j *job, pv *corev1.PersistentVolume) (state, error) {
	if !m.mode.moves() {
		return m.giveUp(ctx, j, pv, "migrating was turned off")
	}
	if edited(j.old, pv) {
		return m.giveUp(ctx, j, pv, "somebody edited the PV")
	}
	s := m.subject(ctx, pv, true)
	if to, _, verdict, reason := m.surroundings(ctx).judge(s); verdict != Ready || to != j.to {
		return m.giveUp(ctx, j, pv, fmt.Sprintf("%s: %s", verdict, reason))
	}
	switch {
	case pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return again, m.retain(ctx, pv)
	case j.step == record.MigrationPrepared:
		m.announce(ctx, j, s.claim)
		if err := j.hold.CutOver(); err != nil {
			return over, err
		}
		j.step = record.MigrationCutover
		return again, nil
	}
	return again, m.remove(ctx, pv)
}

// let lets a PV go that was deleted: nothing can take that back.
func (m *Migrator) let(ctx context.Context, pv *corev1.PersistentVolume) (state, error) {
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return again, m.retain(ctx, pv)
	}
	if others := foreign(pv); len(others) > 0 {
		return over, stopped(fmt.Sprintf("PV %s was deleted, and finalizers of somebody else keep it: %q; the migration goes on once they are gone",
			pv.Name, others))
	}
	return again, m.release(ctx, pv)
}

// settle goes from the new PV to the end.
func (m *Migrator) settle(ctx context.Context, j *job, pv *corev1.PersistentVolume) (state, error) {
	if pv.DeletionTimestamp != nil {
		return over, stopped(fmt.Sprintf("the new PV %s is being deleted; once it is gone it is made again", pv.Name))
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
		note = fmt.Sprintf("claim %s went away meanwhile; PV %s stays, with the policy Retain and all data: "+
			"make use of it, or delete it with its volume by setting its policy to Delete", reference(pv), pv.Name)
	case claim == nil:
	case phase != corev1.VolumeBound:
		return waits, nil
	case claim.Status.Phase != corev1.ClaimBound && claim.Annotations[class.AnnMigrated] != string(pv.UID):
		return waits, m.touch(ctx, claim, pv)
	case claim.Status.Phase != corev1.ClaimBound:
		return waits, nil
	}
	if note == "" && pv.Annotations[class.AnnPolicy] != "" {
		return again, m.restore(ctx, pv)
	}
	return over, m.finish(ctx, j, pv, claim, note)
}

func (m *Migrator) finish(ctx context.Context, j *job, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, note string) error {
	var err error
	if j.to == toHostPath {
		err = j.hold.FinishReturn()
		if err == nil {
			err = m.disown(j, pv)
		}
	} else {
		err = j.hold.Finish(note)
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Migrated", "PV", pv.Name, "to", j.to, "pool", j.pool.Path(), "directory", j.volume, "note", note)
	m.finished(ctx, j, pv, claim, note)
	return nil
}

// giveUp leaves a volume with its old PV, as that was. pv is nil where it is
// not there any more.
func (m *Migrator) giveUp(ctx context.Context, j *job, pv *corev1.PersistentVolume, why string) (state, error) {
	if pv != nil {
		if err := m.restore(ctx, pv); err != nil {
			return over, err
		}
	}
	if err := j.hold.Release(); err != nil {
		return over, err
	}
	if err := m.disown(j, j.old); err != nil {
		return over, err
	}
	klog.FromContext(ctx).Info("Not migrated for now; the PV is as it was", "PV", j.old.Name, "why", why)
	return over, errGaveUp
}

// What a migration that did not come to its end returns, where that was said.
var (
	errGaveUp  = errors.New("it is as before")
	errStop    = errors.New("it is stopped")
	errUnbound = errors.New("it is not bound again")
)

// stop notes why a migration does not go on, and says it.
func (m *Migrator) stop(ctx context.Context, j *job, why string) error {
	if err := j.hold.Stop(why); err != nil {
		return err
	}
	if why != j.why {
		klog.FromContext(ctx).Error(nil, "A migration stopped", "PV", j.old.Name, "why", why)
	}
	m.halted(ctx, j, why)
	return errStop
}

func reference(pv *corev1.PersistentVolume) string {
	if ref := pv.Spec.ClaimRef; ref != nil {
		return ref.Namespace + "/" + ref.Name
	}
	return ""
}
