package resize

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// mentionsResize reports whether the claim's status has a condition or a state about resizing.
func mentionsResize(claim *corev1.PersistentVolumeClaim) bool {
	_, has := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	return has || slices.ContainsFunc(claim.Status.Conditions, isResizeCondition)
}

func isResizeCondition(c corev1.PersistentVolumeClaimCondition) bool {
	return slices.Contains(contract.ResizeConditions, c.Type)
}

// grown returns the status of a claim whose volume has grown: without conditions about resizing,
// and with no less capacity than before. shown is the capacity, which may be the whole disk's.
// allocated is what the volume has: ResourceQuotas count it if it is more than the request.
func grown(before corev1.PersistentVolumeClaimStatus, shown,
	allocated resource.Quantity) corev1.PersistentVolumeClaimStatus {
	s := withoutResize(before)
	if s.Capacity.Storage().Cmp(shown) < 0 {
		s.Capacity = with(s.Capacity, corev1.ResourceStorage, shown)
	}
	s.AllocatedResources = with(s.AllocatedResources, corev1.ResourceStorage, allocated)
	return s
}

// refused returns the status of a claim whose volume cannot grow. infeasible is set if
// it cannot before there is more space or a smaller request.
func refused(before corev1.PersistentVolumeClaimStatus, message string, infeasible bool,
	now metav1.Time) corev1.PersistentVolumeClaimStatus {
	s := withoutResize(before)
	condition := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue,
		LastTransitionTime: now, Message: message,
	}
	for _, c := range before.Conditions {
		if c.Type == condition.Type && c.Status == condition.Status {
			condition.LastTransitionTime = c.LastTransitionTime
		}
	}
	s.Conditions = append(s.Conditions, condition)
	if infeasible {
		s.AllocatedResourceStatuses = with(s.AllocatedResourceStatuses, corev1.ResourceStorage,
			corev1.PersistentVolumeClaimControllerResizeInfeasible)
	}
	return s
}

func withoutResize(before corev1.PersistentVolumeClaimStatus) corev1.PersistentVolumeClaimStatus {
	s := *before.DeepCopy()
	s.Conditions = slices.DeleteFunc(s.Conditions, isResizeCondition)
	delete(s.AllocatedResourceStatuses, corev1.ResourceStorage)
	return s
}

// with returns a copy of a map, which may be nil, with one value set.
func with[M ~map[K]V, K comparable, V any](m M, key K, value V) M {
	out := M{}
	maps.Copy(out, m)
	out[key] = value
	return out
}
