package resize

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

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
