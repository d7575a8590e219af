package recovery

import (
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// NotePolicy sets the policy of a new PV to Retain, and notes the one that its volume had: agents
// record the policy that they see, so the record forgets it. A policy that is not Delete stays away:
// Retain is the answer to what is not known.
func NotePolicy(pv *corev1.PersistentVolume, had string) {
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	if had == string(corev1.PersistentVolumeReclaimDelete) {
		pv.Annotations[contract.AnnFormerPolicy] = had
	}
}

// PolicyDue returns the policy that a PV gets back, "" for none yet: it is noted on the PV, PV and
// claim are Bound to each other, as both were just read, and the agent has recorded that claim. A PV
// that an operator gave up gets it from the operator.
func PolicyDue(v Volume, f Facts) corev1.PersistentVolumeReclaimPolicy {
	pv, claim := f.PV, f.Claim
	switch {
	case !IsBound(v, f) || claim.DeletionTimestamp != nil || v.ClaimUID != string(claim.UID) || v.PVName != pv.Name:
		return ""
	case pv.Annotations[contract.AnnGivenUp] != "" || pv.Annotations[contract.AnnMissing] != "" ||
		pv.Annotations[contract.AnnPolicy] != "":
		return ""
	case pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return ""
	}
	if noted := pv.Annotations[contract.AnnFormerPolicy]; noted == string(corev1.PersistentVolumeReclaimDelete) {
		return corev1.PersistentVolumeReclaimDelete
	}
	return ""
}
