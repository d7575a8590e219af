package operator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
)

// reached are the reasons with which all that the resource asks for is served. PoolInUse and PoolUnmounting are about former
// pools: they may last as long as a volume, or a node that is not ready, and no client should wait for that.
var reached = []string{"Complete", "PoolInUse", "PoolUnmounting"}

// stuck are the reasons that last until a user changes something. A client that waits fails at once. The other reasons of
// Degraded end by themselves: a node restarts, a claim is bound, the API server answers.
var stuck = []string{"SettingInvalid", claimpools.Unsupported, claimpools.Shared, "MultipleResources"}

// health returns the conditions Ready, Reconciling and Stalled of the verdict, which kstatus reads: Helm, Flux and Argo CD wait
// by them. The status has the other conditions of the verdict already.
func (v verdict) health(status v1beta1.HostPathProvisionerStatus) []v1beta1.Condition {
	available := slices.ContainsFunc(status.Conditions, func(c v1beta1.Condition) bool {
		return c.Type == v1beta1.Available && c.Status == yes
	})
	ready := available && v.degraded == no && slices.Contains(reached, v.reason)
	stalled := slices.Contains(stuck, v.reason)
	reconciling := v.progressing == yes && !ready && !stalled
	condition := func(kind v1beta1.ConditionType, is bool) v1beta1.Condition {
		c := v1beta1.Condition{Type: kind, Status: no, Reason: v.reason, Message: v.message}
		if is {
			c.Status = corev1.ConditionTrue
		}
		return c
	}
	return []v1beta1.Condition{
		condition(v1beta1.ReadyCondition, ready), condition(v1beta1.Reconciling, reconciling), condition(v1beta1.Stalled, stalled),
	}
}

// asOf returns the status as that of a generation of the resource. Every condition was judged again with it.
func asOf(status v1beta1.HostPathProvisionerStatus, generation int64) v1beta1.HostPathProvisionerStatus {
	s := *status.DeepCopy()
	s.ObservedGeneration = generation
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = generation
	}
	return s
}
