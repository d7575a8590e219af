package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
)

const (
	yes = corev1.ConditionTrue
	no  = corev1.ConditionFalse
)

// rolloutStarted is the reason while agents are replaced within one version.
const rolloutStarted = "RolloutStarted"

// listed is how many names a message has.
const listed = 10

// verdict is one state of an installation, as its three conditions show it. An empty status keeps what was known.
type verdict struct {
	available, progressing, degraded corev1.ConditionStatus
	reason, message                  string
}

// judge returns the status of a resource whose objects are applied.
func (r *Reconciler) judge(cr *v1beta1.HostPathProvisioner, l layout, a agents) v1beta1.HostPathProvisionerStatus {
	status := *cr.Status.DeepCopy()
	status.OperatorVersion, status.TargetVersion = r.Version, r.Version
	ready := a.waiting == "" && a.Complete()
	if ready {
		status.ObservedVersion = r.Version
	}
	status.StoragePoolStatuses = l.statuses(a)
	v := verdictOf(status, l, a, ready)
	if len(l.without) > 0 {
		v.message += "; without an agent until the former agent's pod there ends: " + names(l.without)
	}
	r.conditions(&status, v, notes(cr))
	return status
}

func verdictOf(status v1beta1.HostPathProvisionerStatus, l layout, a agents, ready bool) verdict {
	problems, waits := l.onClaimsNotReady()
	switch {
	case len(l.refused)+len(problems)+len(l.invalid) > 0:
		l.refused = append(slices.Clone(l.refused), problems...)
		return l.partly(ready)
	case len(waits) > 0 && status.ObservedVersion == status.TargetVersion && a.waiting == "" && !a.Rolling:
		return verdict{"", yes, yes, claimpools.NotReady, strings.Join(waits, "; ")}
	case ready && len(l.claims.Left) > 0:
		return verdict{yes, yes, no, "PoolUnmounting", names(l.claims.Left)}
	case ready && len(l.retained) > 0:
		return verdict{yes, yes, no, "PoolInUse", strings.Join(l.retained, "; ")}
	case ready:
		return verdict{yes, no, no, "Complete", "Application Available"}
	case status.ObservedVersion == "" && a.waiting != "":
		return verdict{no, yes, no, "DeployStarted", "waits for " + a.waiting + " to end"}
	case status.ObservedVersion == "":
		return verdict{no, yes, no, "DeployStarted", "Started Deployment" + a.lacks()}
	case status.ObservedVersion != status.TargetVersion:
		return verdict{yes, yes, no, "UpgradeStarted", "Started upgrade to version " + status.TargetVersion + a.lacks()}
	case a.Rolling && !a.Failed:
		return verdict{yes, yes, no, rolloutStarted, "agents are replaced after a change"}
	}
	return verdict{no, no, yes, "Degraded", a.counts()}
}

// counts says which agents are not ready.
func (a agents) counts() string {
	if a.Desired == 0 {
		return "no node matches spec.workload"
	}
	text := fmt.Sprintf("%d of %d agents are ready", a.Ready, a.Desired)
	if len(a.Unready) > 0 {
		text += "; not ready: " + names(a.Unready)
	}
	if a.Missing > 0 {
		text += fmt.Sprintf("; without a pod: %d, see the events of DaemonSet %s", a.Missing, daemonSetName)
	}
	return text
}

// lacks continues the message of a state that ends when the agents are ready. It is empty while these are on their way.
func (a agents) lacks() string {
	if !a.Failed && (a.Rolling || a.Desired > 0) {
		return ""
	}
	return ", which stands still: " + a.counts()
}

// onClaimsNotReady returns what the user has to do for the pools on claims, and what these wait for.
func (l layout) onClaimsNotReady() (problems []refusal, waits []string) {
	for _, s := range l.claims.States {
		for _, p := range s.Problems {
			problems = append(problems, refusal{s.Name, claimpools.NotReady, p})
		}
		for _, w := range s.Waits {
			waits = append(waits, "pool "+s.Name+": "+w)
		}
	}
	return problems, waits
}

// partly is the verdict of an installation that does not have all that is asked for.
func (l layout) partly(ready bool) verdict {
	v := verdict{yes, yes, yes, "", ""}
	text, reasons := []string{}, []string{}
	for _, refused := range l.refused {
		text, reasons = append(text, refused.String()), append(reasons, refused.reason)
	}
	if len(l.invalid) > 0 {
		reasons = append(reasons, "SettingInvalid")
	}
	v.reason = reasons[0]
	if i := slices.IndexFunc(reasons, func(reason string) bool { return slices.Contains(stuck, reason) }); i >= 0 {
		v.reason = reasons[i] // the others may end by themselves, and this one does not
	}
	if !ready {
		v.available = ""
	}
	v.message = strings.Join(append(text, l.invalid...), "; ")
	return v
}

// names lists the first names.
func names(all []string) string {
	if len(all) <= listed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:listed], ", "), len(all)-listed)
}

// notes are settings of the resource that have no effect.
func notes(cr *v1beta1.HostPathProvisioner) (all []string) {
	gates := slices.Sorted(slices.Values(cr.Spec.FeatureGates))
	for _, gate := range gates {
		if gate == "Snapshotting" {
			all = append(all, "snapshots are not offered yet")
		} else {
			all = append(all, "feature gate "+gate+" is unknown")
		}
	}
	for _, p := range cr.Spec.StoragePools {
		if p.SnapshotProvider != "" {
			all = append(all, "pool "+p.Name+": snapshotProvider has no effect yet")
		}
		if p.OverlayClassName != "" {
			all = append(all, "pool "+p.Name+": overlayClassName has no effect")
		}
	}
	return all
}

// conditions writes the verdict into the status. The notes follow the message of Available and Degraded.
func (r *Reconciler) conditions(status *v1beta1.HostPathProvisionerStatus, v verdict, notes []string) {
	reason, message := v.reason, v.message
	if len(notes) > 0 {
		message += "; FeatureUnavailable: " + strings.Join(notes, ", ")
	}
	now := metav1.NewTime(r.Now().UTC().Truncate(1e9))
	put(status, now, v1beta1.Condition{Type: v1beta1.Available, Status: v.available, Reason: reason, Message: message})
	put(status, now, v1beta1.Condition{Type: v1beta1.Progressing, Status: v.progressing, Reason: reason, Message: v.message})
	if len(notes) > 0 && v.degraded == no {
		reason = "FeatureUnavailable"
	}
	put(status, now, v1beta1.Condition{Type: v1beta1.Degraded, Status: v.degraded, Reason: reason, Message: message})
	for _, c := range v.health(*status) {
		put(status, now, c)
	}
}

// put sets a condition. It changes nothing if the condition does not differ, and keeps a status that the new one leaves open.
func put(status *v1beta1.HostPathProvisionerStatus, now metav1.Time, c v1beta1.Condition) {
	i := slices.IndexFunc(status.Conditions, func(have v1beta1.Condition) bool { return have.Type == c.Type })
	if i < 0 {
		if c.Status == "" {
			c.Status = corev1.ConditionUnknown
		}
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		status.Conditions = append(status.Conditions, c)
		return
	}
	have := &status.Conditions[i]
	if c.Status == "" {
		c.Status = have.Status
	}
	if have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
		return
	}
	c.LastHeartbeatTime, c.LastTransitionTime = now, have.LastTransitionTime
	if have.Status != c.Status {
		c.LastTransitionTime = now
	}
	*have = c
}

// statuses returns the states of the pools. An agent is ready when all of its pools are, so that a pool may be ready on more
// nodes than are counted, never on fewer.
func (l layout) statuses(a agents) (all []v1beta1.StoragePoolStatus) {
	for _, p := range l.pools {
		s := v1beta1.StoragePoolStatus{Name: p.Name, Phase: v1beta1.Preparing, DesiredReady: a.Desired, CurrentReady: min(a.Ready, a.Desired)}
		if a.Complete() {
			s.Phase = v1beta1.Ready
		}
		if p.Mount != "" {
			s = l.onClaim(p.Name, a.Desired)
		}
		all = append(all, s)
	}
	for _, refused := range l.refused {
		all = append(all, v1beta1.StoragePoolStatus{Name: refused.pool, Phase: v1beta1.Preparing, DesiredReady: a.Desired})
	}
	slices.SortFunc(all, func(a, b v1beta1.StoragePoolStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// onClaim returns the state of a pool on claims.
func (l layout) onClaim(name string, desired int) v1beta1.StoragePoolStatus {
	for _, s := range l.claims.States {
		if s.Name == name {
			return s.StoragePoolStatus
		}
	}
	return v1beta1.StoragePoolStatus{Name: name, Phase: v1beta1.Preparing, DesiredReady: desired}
}

// writeStatus writes the status if it differs, and records an event if the reason is new, or what is wrong with the settings.
func (r *Reconciler) writeStatus(ctx context.Context, cr *v1beta1.HostPathProvisioner, status v1beta1.HostPathProvisionerStatus) error {
	status = asOf(status, cr.Generation)
	if equality.Semantic.DeepEqual(cr.Status, status) {
		return nil
	}
	before := progress(cr.Status)
	changed := cr.DeepCopy()
	changed.Status = status
	err := r.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(cr, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if after := progress(status); after.Reason != before.Reason || slices.Contains(told, after.Reason) && after.Message != before.Message {
		r.announce(cr, after)
	}
	return nil
}

// told are the reasons for which a new message is an event too.
var told = []string{"SettingInvalid", claimpools.NotReady, claimpools.Unsupported, claimpools.Shared}

// progress is the condition whose reason is always the verdict's.
func progress(status v1beta1.HostPathProvisionerStatus) (found v1beta1.Condition) {
	for _, c := range status.Conditions {
		if c.Type == v1beta1.Progressing {
			found = c
		}
	}
	return found
}

// announce records an event for a new reason.
func (r *Reconciler) announce(cr *v1beta1.HostPathProvisioner, c v1beta1.Condition) {
	reason, message, kind := c.Reason, c.Message, corev1.EventTypeNormal
	switch reason {
	case "Complete":
		reason, message = "ProvisionerHealthy", "Provisioner Healthy"
	case "DeployStarted", "UpgradeStarted", rolloutStarted, "PoolInUse", "PoolUnmounting", "VolumesInUse", "AgentsEnding":
	default:
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(cr, nil, kind, reason, "Reconcile", "%s", message)
}

// failing is the status of a resource for which a step failed.
func (r *Reconciler) failing(status v1beta1.HostPathProvisionerStatus, reason, message string) v1beta1.HostPathProvisionerStatus {
	s := *status.DeepCopy()
	r.conditions(&s, verdict{"", yes, yes, reason, message}, nil)
	return s
}

// refusedSecond is the status of a resource that is not served because there is an older one.
func (r *Reconciler) refusedSecond(status v1beta1.HostPathProvisionerStatus, served string) v1beta1.HostPathProvisionerStatus {
	s := *status.DeepCopy()
	r.conditions(&s, verdict{no, no, yes, "MultipleResources",
		fmt.Sprintf("only one HostPathProvisioner is served, and %s is older; delete one of them", served)}, nil)
	return s
}
