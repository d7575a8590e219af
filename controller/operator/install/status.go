package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/admission"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
)

// maxMessage bounds the message of a condition. Six conditions have the same one.
const maxMessage = 4 << 10

// judge returns the status of a resource whose objects are applied.
func (r *Reconciler) judge(cr *v1beta1.HostPathProvisioner, l plan, a agents) v1beta1.HostPathProvisionerStatus {
	status := *cr.Status.DeepCopy()
	status.OperatorVersion, status.TargetVersion = r.Version, r.Version
	ready := a.waiting == "" && !l.Withheld && a.Complete()
	if ready {
		status.ObservedVersion = r.Version
	}
	status.StoragePoolStatuses = l.statuses(a)
	v := verdictOf(status, l, a, ready)
	if replaced := slices.DeleteFunc(a.closed(l),
		func(c agentstatus.Closed) bool { return !c.Replaced }); len(replaced) > 0 && a.Rolling {
		v.message += "; " + texts(replaced)
	}
	if a.waiting != "" && !strings.Contains(v.message, a.waiting) {
		v.message += "; waits for " + a.waiting + " to end"
	}
	if len(l.without) > 0 {
		v.message += "; without an agent until the former agent's pod there ends: " + events.Names(l.without, events.Listed)
	}
	if text := strings.Join(l.Waiting, "; "); !strings.Contains(v.message, text) {
		v.message += "; " + text
	}
	r.conditions(&status, v, admission.Notes(cr))
	return status
}

func verdictOf(status v1beta1.HostPathProvisionerStatus, l plan, a agents, ready bool) verdict {
	problems, waits := l.onClaimsNotReady()
	closed, available := a.closed(l), corev1.ConditionStatus("")
	if ready && len(closed) > 0 {
		waits, available = append(waits, texts(closed)), a.someOpen(l)
	}
	switch {
	case len(l.Refused)+len(problems)+len(l.Invalid) > 0:
		l.Refused = append(slices.Clone(l.Refused), problems...)
		return l.partly(ready)
	case len(waits) > 0 && status.ObservedVersion == status.TargetVersion && a.waiting == "" && !a.Rolling:
		return verdict{reason: objects.NotReady, message: strings.Join(waits, "; "), available: available}
	case ready && len(l.claims.Left) > 0:
		return verdict{reason: "PoolUnmounting", message: events.Names(l.claims.Left, events.Listed), available: yes}
	case ready && len(l.Retained) > 0:
		return verdict{reason: "PoolInUse", message: strings.Join(l.Retained, "; ")}
	case ready:
		return verdict{reason: "Complete", message: "Application Available"}
	case status.ObservedVersion == "" && a.waiting != "":
		return verdict{reason: "DeployStarted", message: "waits for " + a.waiting + " to end"}
	case status.ObservedVersion == "":
		return verdict{reason: "DeployStarted", message: "Started Deployment" + a.lacks()}
	case status.ObservedVersion != status.TargetVersion:
		return verdict{reason: "UpgradeStarted", message: "Started upgrade to version " + status.TargetVersion + a.lacks()}
	case a.Rolling && !a.Failed:
		return verdict{reason: rolloutStarted, message: "agents are replaced after a change"}
	}
	if len(closed) > 0 {
		return verdict{reason: "Degraded", message: a.counts() + "; " + texts(closed)}
	}
	return verdict{reason: "Degraded", message: a.counts()}
}

// texts describes pools that are not open, the first of them.
func texts(closed []agentstatus.Closed) string {
	all := make([]string, len(closed))
	for i, c := range closed {
		all[i] = c.String()
	}
	return events.Names(all, events.Listed)
}

// onClaimsNotReady returns what users have to do for the pools on claims, and what these wait for.
func (l plan) onClaimsNotReady() (problems []layout.Refusal, waits []string) {
	for _, s := range l.claims.States {
		for _, p := range s.Problems {
			problems = append(problems, layout.Refusal{Pool: s.Name, Reason: objects.NotReady, Message: p})
		}
		for _, w := range s.Waits {
			waits = append(waits, "pool "+s.Name+": "+w)
		}
	}
	return problems, waits
}

// partly is the verdict of an installation that does not have all that is asked for. Its reason is
// the first that does not end without help, or else the first.
func (l plan) partly(ready bool) verdict {
	var v verdict
	text, found := []string{}, []string{}
	for _, refused := range l.Refused {
		text, found = append(text, refused.String()), append(found, refused.Reason)
	}
	if len(l.Invalid) > 0 {
		found = append(found, "SettingInvalid")
	}
	i := slices.IndexFunc(found, func(reason string) bool { return reasons[reason].stuck })
	v.reason, v.message = found[max(0, i)], strings.Join(append(text, l.Invalid...), "; ")
	if ready {
		v.available = yes
	}
	return v
}

// statuses returns the states of the pools. A pool is ready on the nodes whose agents have published
// that it is open.
func (l plan) statuses(a agents) (all []v1beta1.StoragePoolStatus) {
	for _, p := range l.Pools {
		s := v1beta1.StoragePoolStatus{Name: p.Name, Phase: v1beta1.Preparing, DesiredReady: a.Desired}
		if len(l.Details[p.Name].NodeSelector) > 0 {
			s.DesiredReady = a.Have(p.Name)
		}
		s.CurrentReady = min(a.Open(p.Name), s.DesiredReady)
		if a.Complete() && s.DesiredReady > 0 && s.CurrentReady == s.DesiredReady {
			s.Phase = v1beta1.Ready
		}
		if p.Mount != "" {
			s = l.onClaim(p.Name, a.Desired)
		}
		all = append(all, s)
	}
	for _, refused := range l.Refused {
		all = append(all, v1beta1.StoragePoolStatus{Name: refused.Pool, Phase: v1beta1.Preparing, DesiredReady: a.Desired})
	}
	slices.SortFunc(all, func(a, b v1beta1.StoragePoolStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (l plan) onClaim(name string, desired int) v1beta1.StoragePoolStatus {
	for _, s := range l.claims.States {
		if s.Name == name {
			return s.StoragePoolStatus
		}
	}
	return v1beta1.StoragePoolStatus{Name: name, Phase: v1beta1.Preparing, DesiredReady: desired}
}

// show writes the verdict into the conditions of the resource, and leaves the rest of its status.
func (r *Reconciler) show(ctx context.Context, cr *v1beta1.HostPathProvisioner, v verdict) error {
	status := *cr.Status.DeepCopy()
	r.conditions(&status, v, nil)
	return r.writeStatus(ctx, cr, status)
}

// writeStatus writes the status if it differs, cut to what an object can have. It records an event if
// the reason is new, or what is wrong with the pools or the settings.
func (r *Reconciler) writeStatus(ctx context.Context, cr *v1beta1.HostPathProvisioner,
	status v1beta1.HostPathProvisionerStatus) error {
	status = asOf(status, cr.Generation)
	for i := range status.Conditions {
		status.Conditions[i].Message = events.Fit(status.Conditions[i].Message, maxMessage)
	}
	for i := range status.StoragePoolStatuses {
		claimpools.Fit(&status.StoragePoolStatuses[i])
	}
	if equality.Semantic.DeepEqual(cr.Status, status) {
		return nil
	}
	changed := cr.DeepCopy()
	changed.Status = status
	err := r.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(cr, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	before, after := progress(cr.Status), progress(status)
	if after.Reason != before.Reason || reasons[after.Reason].repeated && after.Message != before.Message {
		r.announce(cr, after)
	}
	return nil
}

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
	reason, message, kind := c.Reason, c.Message, corev1.EventTypeWarning
	if reasons[reason].degraded == no {
		kind = corev1.EventTypeNormal
	}
	if reason == "Complete" {
		reason, message = "ProvisionerHealthy", "Provisioner Healthy"
	}
	r.Events.Eventf(cr, nil, kind, reason, "Reconcile", "%s", message)
}
