package migrate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The deletion of a PV cannot be reversed, so the API server is asked before it whether it admits
// the PV that replaces it: before anything is written, because a migration that is cancelled later
// would write the old PV twice at each attempt, and once more right before the deletion.

var (
	// refusedFor is the pause after the API server refused a write of a migration.
	refusedFor = timing.Scaled(5 * time.Minute)
	// unansweredFor is the pause after it could not decide, because a webhook is down for example.
	unansweredFor = timing.Scaled(time.Minute)
)

// dryRun makes the API server validate and admit a write, and not store it.
var dryRun = []string{metav1.DryRunAll}

// refusal is why a PV whose migration could begin is not migrated for a while.
type refusal struct {
	pv      *corev1.PersistentVolume // as it was
	until   time.Time
	verdict Verdict
	reason  string
}

// admit asks the API server whether it admits what a migration writes to PVs, and whether a webhook
// changes it so that it does not serve. It changes nothing.
func (m *Migrator) admit(ctx context.Context, pv, next *corev1.PersistentVolume) error {
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		if err := m.setRetain(ctx, pv, metav1.PatchOptions{DryRun: dryRun}); err != nil {
			return err
		}
	}
	o := live.Unchanged(pv)
	o.DryRun = dryRun
	if err := m.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, o); err != nil {
		return fmt.Errorf("delete PV %s: %w", pv.Name, err)
	}
	if err := m.admitNew(ctx, next); err != nil {
		return err
	}
	return m.recognised(ctx, pv, next)
}

// recognised asks the API server what it would store as the new PV, under a name that is free, and
// returns an untaken error if the migration would not know that PV again. The name has the shape of
// a provisioner's; path and claimRef follow it, because policies tie them. That the API server
// refuses such a PV proves nothing about the one of the right name, which admitNew asked for.
func (m *Migrator) recognised(ctx context.Context, old, next *corev1.PersistentVolume) error {
	trial, err := m.Client.CoreV1().PersistentVolumes().Create(ctx, renamed(next, uuid.NewUUID()),
		metav1.CreateOptions{DryRun: dryRun})
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	j := &job{old: old, new: renamed(next, types.UID(strings.TrimPrefix(trial.Name, "pvc-"))),
		step: record.MigrationCutover}
	j.planned = source(j.new)
	if trial.UID == old.UID || !j.isNew(trial) {
		return untaken{next.Name, "the PV that replaces it would not be known again"}
	}
	if policy, _ := j.policy(trial); policy != contract.Policy(next) ||
		trial.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return untaken{next.Name, "the PV that replaces it would have another reclaim policy"}
	}
	return nil
}

// renamed returns the PV that a provisioner would make for a claim of that UID in the same way.
func renamed(pv *corev1.PersistentVolume, uid types.UID) *corev1.PersistentVolume {
	was := pv.Name
	pv = pv.DeepCopy()
	pv.Name = "pvc-" + string(uid)
	if contract.ClaimUID(pv) != "" {
		pv.Spec.ClaimRef.UID = uid
	}
	rename := func(s *string) {
		dir, base := path.Split(*s)
		*s = dir + strings.Replace(base, was, pv.Name, 1)
	}
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		rename(&s.CSI.VolumeHandle)
	case s.HostPath != nil:
		rename(&s.HostPath.Path)
	case s.Local != nil:
		rename(&s.Local.Path)
	}
	return pv
}

// admitNew asks the API server whether it admits the PV that replaces another one. It changes
// nothing. The answer "already exists" admits it: the API server compares names last.
func (m *Migrator) admitNew(ctx context.Context, next *corev1.PersistentVolume) error {
	_, err := m.Client.CoreV1().PersistentVolumes().Create(ctx, next, metav1.CreateOptions{DryRun: dryRun})
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("create the PV that replaces it: %w", err)
}

// refuse notes that the API server does not admit a migration, so that it is not tried again for a
// while. It records an event if the answer is permanent. It returns errCancelled; err itself if the
// API server gave no answer, or if the PV was changed or deleted meanwhile.
func (m *Migrator) refuse(ctx context.Context, pv *corev1.PersistentVolume, to string, err error) error {
	unused := errors.As(err, new(untaken))
	if !unused && (!errors.As(err, new(apierrors.APIStatus)) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)) {
		return err
	}
	r := refusal{pv: pv, until: time.Now().Add(unansweredFor), verdict: Waiting,
		reason: fmt.Sprintf("the API server cannot tell whether it admits the migration: %v; nothing was changed", err)}
	if unused || live.Permanent(err) {
		r.until, r.verdict = time.Now().Add(refusedFor), Refused
		r.reason = fmt.Sprintf("the API server refuses a step: %v; the PV is as it was; correct what refuses it "+
			"(docs/migration.md)%s", err, dryRunHint(err))
		about := events.PV(pv)
		if ref := pv.Spec.ClaimRef; ref != nil && ref.UID != "" {
			about = *ref
		}
		m.Events.Warn(ctx, about, "refused "+string(pv.UID), events.MigrationStopped, fmt.Sprintf(
			"node %s: the migration to a %s PV does not begin: %s; the agent tries again every few minutes", m.Node, backend(to),
			r.reason))
	}
	if before, ok := m.refusals[pv.Name]; !ok || before.reason != r.reason {
		klog.FromContext(ctx).Info("Cannot migrate a PV now", "PV", pv.Name, "why", r.reason)
	}
	m.refusals[pv.Name] = r
	return errCancelled
}

// dryRunHint returns what to do about a webhook that accepts no dry runs, which err names, or "".
func dryRunHint(err error) string {
	if strings.Contains(err.Error(), "does not support dry run") {
		return "; set the sideEffects of that webhook to None or NoneOnDryRun, or exclude persistentvolumes from its rules"
	}
	return ""
}

// refused gives a candidate the verdict of a refusal in place of Ready, and reports whether it is
// time to try again. It forgets the refusal of a PV that was edited since, or made again.
func (m *Migrator) refused(f *candidate) (retry bool) {
	r, ok := m.refusals[f.PV]
	switch {
	case !ok || f.Verdict != Ready:
		return false
	case r.pv.UID != f.pv.UID, edited(r.pv, f.pv):
		delete(m.refusals, f.PV)
		return false
	}
	f.Verdict, f.Reason = r.verdict, r.reason
	return !time.Now().Before(r.until)
}

// prepare reads a PV again, whose verdict may be minutes old, and asks the API server whether it
// admits the migration. It returns the candidate with its new verdict; errCancelled if it is not
// Ready or not admitted.
func (m *Migrator) prepare(ctx context.Context, f candidate) (candidate, error) {
	pv, err := live.PV(ctx, m.Client, f.PV)
	if err != nil {
		return f, err
	}
	if pv == nil {
		return f, errCancelled
	}
	if f = m.node(ctx, true).candidate(m.subject(ctx, pv, true)); f.Verdict != Ready {
		klog.FromContext(ctx).V(2).Info("Cannot migrate a PV now", "PV", f.PV, "verdict", f.Verdict, "why", f.Reason)
		return f, errCancelled
	}
	if note(f.v) != "" && pv.Annotations[contract.AnnPolicy] != "" { // see kept
		if err := m.keep(ctx, pv); err != nil {
			return f, m.refuse(ctx, pv, f.To, err)
		}
		return f, errCancelled
	}
	if err := m.admit(ctx, pv, f.next); err != nil {
		return f, m.refuse(ctx, pv, f.To, err)
	}
	delete(m.refusals, f.PV)
	return f, nil
}
