package resize

import (
	"maps"
	"math"
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

// bound reports whether claim and PV are bound to each other, and the claim is not being deleted.
func bound(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	return claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == pv.Name &&
		ref != nil && ref.UID == claim.UID
}

// short reports whether the claim requests more than its status, its PV or its volume
// has. allocated is 0 if the requested size was not known when the volume was adopted;
// the claim's first larger request then defines it.
func short(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, allocated int64) bool {
	want := claim.Spec.Resources.Requests.Storage()
	return claim.Status.Capacity.Storage().Cmp(*want) < 0 || pv.Spec.Capacity.Storage().Cmp(*want) < 0 ||
		allocated > 0 && want.CmpInt64(allocated) > 0
}

// overcharged reports whether a claim's status has more allocated than the volume, and than
// the claim requests, which ResourceQuotas count at least. Older agents wrote the capacity
// of the PV there. It returns false if allocated is 0, which is not known.
func overcharged(claim *corev1.PersistentVolumeClaim, allocated int64) bool {
	charged := claim.Status.AllocatedResources.Storage()
	return allocated > 0 && charged.CmpInt64(allocated) > 0 && charged.Cmp(*claim.Spec.Resources.Requests.Storage()) > 0
}

// sizeOf returns the size of a volume with at least the requested size: the request as
// it is written if that is the size. The volume has more if the request was lowered
// after it had grown, because volumes do not shrink.
func sizeOf(claim *corev1.PersistentVolumeClaim, allocated int64) resource.Quantity {
	want := claim.Spec.Resources.Requests.Storage()
	if allocated <= contract.WholeBytes(want) && want.CmpInt64(math.MaxInt64) <= 0 {
		return *want
	}
	return *resource.NewQuantity(allocated, resource.BinarySI)
}
