package resize

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ofGrowing are the conditions that speak of growing.
var ofGrowing = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimResizing,
	corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimControllerResizeError,
	corev1.PersistentVolumeClaimNodeResizeError,
}

// speaks reports whether the claim says that it grows, or cannot.
func speaks(claim *corev1.PersistentVolumeClaim) bool {
	_, of := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	return of || slices.ContainsFunc(claim.Status.Conditions, isOfGrowing)
}

func isOfGrowing(c corev1.PersistentVolumeClaimCondition) bool {
	return slices.Contains(ofGrowing, c.Type)
}

// grown is the status of a claim whose volume has that size. It has no less
// than before, and says nothing of growing any more.
func grown(before corev1.PersistentVolumeClaimStatus, size resource.Quantity) corev1.PersistentVolumeClaimStatus {
	s := quiet(before)
	if s.Capacity.Storage().Cmp(size) < 0 {
		s.Capacity = with(s.Capacity, corev1.ResourceStorage, size)
	}
	// What quotas count, where it is more than the request.
	s.AllocatedResources = with(s.AllocatedResources, corev1.ResourceStorage, *s.Capacity.Storage())
	return s
}

// refused is the status of a claim whose volume cannot grow for the reason in
// the message. infeasible: not before space comes back or less is asked for.
func refused(before corev1.PersistentVolumeClaimStatus, message string, infeasible bool, now metav1.Time) corev1.PersistentVolumeClaimStatus {
	s := quiet(before)
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

// quiet is a copy of the status that says nothing of growing.
func quiet(before corev1.PersistentVolumeClaimStatus) corev1.PersistentVolumeClaimStatus {
	s := *before.DeepCopy()
	s.Conditions = slices.DeleteFunc(s.Conditions, isOfGrowing)
	delete(s.AllocatedResourceStatuses, corev1.ResourceStorage)
	return s
}

// with is a copy of a map, which may be nil, with one value set.
func with[M ~map[K]V, K comparable, V any](m M, key K, value V) M {
	out := M{key: value}
	for k, v := range maps.All(m) {
		if k != key {
			out[k] = v
		}
	}
	return out
}
