package resize

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bound reports whether claim and PV are each other's, and the claim stays.
func bound(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	return claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == pv.Name &&
		ref != nil && ref.UID == claim.UID
}

// short reports whether the claim asks for more than it has, its PV has, or its
// volume is promised, in bytes. Where nothing is promised, nobody could say
// what was asked for when the volume was adopted; the claim's first request
// for more then says it.
func short(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, promised int64) bool {
	want := claim.Spec.Resources.Requests.Storage()
	return claim.Status.Capacity.Storage().Cmp(*want) < 0 || pv.Spec.Capacity.Storage().Cmp(*want) < 0 ||
		promised > 0 && promised < want.Value()
}

// sizeOf is the size of a volume that is promised no less than the claim asks
// for: the request as it was written where it is just that. It is more where
// the request was lowered after the volume had grown, for volumes do not shrink.
func sizeOf(claim *corev1.PersistentVolumeClaim, promised int64) resource.Quantity {
	if want := claim.Spec.Resources.Requests.Storage(); promised <= want.Value() {
		return *want
	}
	return *resource.NewQuantity(promised, resource.BinarySI)
}
