package install

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

const (
	yes = corev1.ConditionTrue
	no  = corev1.ConditionFalse
)

// rolloutStarted is the reason while agents are replaced within one version.
const rolloutStarted = "RolloutStarted"

// meaning is what a reason means for the conditions. A status that is not set stays as it was.
type meaning struct {
	available, progressing, degraded corev1.ConditionStatus
	// served is set if all that the resource asks for is served. Former pools may last as long as a
	// volume, or a node that is not ready, and no client should wait for that.
	served bool
	// stuck is set if the state lasts until a user changes something: a client that waits fails at
	// once. Others end without help: a node restarts, a claim is bound, the API server answers.
	stuck bool
	// repeated is set if a new message is an event, too, and not only a new reason.
	repeated bool
}

// reasons has the meaning of each reason. docs/operator.md has the same tables for users.
var reasons = map[string]meaning{
	"DeployStarted":     {available: no, progressing: yes, degraded: no},
	"UpgradeStarted":    {available: yes, progressing: yes, degraded: no},
	rolloutStarted:      {available: yes, progressing: yes, degraded: no},
	"Complete":          {available: yes, progressing: no, degraded: no, served: true},
	"PoolInUse":         {available: yes, progressing: yes, degraded: no, served: true},
	"PoolUnmounting":    {progressing: yes, degraded: no, served: true},
	"VolumesInUse":      {progressing: yes, degraded: no},
	"AgentsEnding":      {available: no, progressing: yes, degraded: no},
	"Degraded":          {available: no, progressing: no, degraded: yes},
	"ReconcileFailed":   {progressing: yes, degraded: yes},
	objects.NotReady:    {progressing: yes, degraded: yes, repeated: true},
	objects.Unsupported: {progressing: yes, degraded: yes, repeated: true, stuck: true},
	objects.Shared:      {progressing: yes, degraded: yes, repeated: true, stuck: true},
	"SettingInvalid":    {progressing: yes, degraded: yes, repeated: true, stuck: true},
	"MultipleResources": {available: no, progressing: no, degraded: yes, stuck: true},
}

type verdict struct {
	reason, message string
	// available is the status of Available if the reason leaves it open and it is known.
	available corev1.ConditionStatus
}

// conditions writes the verdict into the status. The notes follow the message of Available and
// Degraded. Helm, Flux and Argo CD wait by Ready, Reconciling and Stalled, as kstatus reads them.
func (r *Reconciler) conditions(status *v1beta1.HostPathProvisionerStatus, v verdict, notes []string) {
	m, degraded, noted := reasons[v.reason], v.reason, v.message
	if len(notes) > 0 {
		noted += "; FeatureUnavailable: " + strings.Join(notes, ", ")
		if m.degraded == no {
			degraded = "FeatureUnavailable"
		}
	}
	now := metav1.NewTime(r.Now().UTC().Truncate(1e9))
	set := func(kind v1beta1.ConditionType, is corev1.ConditionStatus, reason, message string) corev1.ConditionStatus {
		return put(status, now, v1beta1.Condition{Type: kind, Status: is, Reason: reason, Message: message})
	}
	available := set(v1beta1.Available, cmp.Or(v.available, m.available), v.reason, noted)
	set(v1beta1.Progressing, m.progressing, v.reason, v.message)
	set(v1beta1.Degraded, m.degraded, degraded, noted)
	ready := available == yes && m.degraded == no && m.served
	set(v1beta1.ReadyCondition, statusOf[ready], v.reason, v.message)
	set(v1beta1.Reconciling, statusOf[m.progressing == yes && !ready && !m.stuck], v.reason, v.message)
	set(v1beta1.Stalled, statusOf[m.stuck], v.reason, v.message)
}

var statusOf = map[bool]corev1.ConditionStatus{true: yes, false: no}

// put sets a condition and returns its status, which stays as it was if the new one has none. It
// changes nothing if the condition does not differ.
func put(status *v1beta1.HostPathProvisionerStatus, now metav1.Time, c v1beta1.Condition) corev1.ConditionStatus {
	i := slices.IndexFunc(status.Conditions, func(have v1beta1.Condition) bool { return have.Type == c.Type })
	if i < 0 {
		c.Status = cmp.Or(c.Status, corev1.ConditionUnknown)
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		status.Conditions = append(status.Conditions, c)
		return c.Status
	}
	have := &status.Conditions[i]
	c.Status = cmp.Or(c.Status, have.Status)
	if have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
		return c.Status
	}
	c.LastHeartbeatTime, c.LastTransitionTime = now, have.LastTransitionTime
	if have.Status != c.Status {
		c.LastTransitionTime = now
	}
	*have = c
	return c.Status
}

// asOf returns the status as that of a generation, with which every condition was judged again.
func asOf(status v1beta1.HostPathProvisionerStatus, generation int64) v1beta1.HostPathProvisionerStatus {
	s := *status.DeepCopy()
	s.ObservedGeneration = generation
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = generation
	}
	return s
}
