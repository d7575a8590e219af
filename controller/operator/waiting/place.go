package waiting

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// place is the node whose agent has to serve a claim.
type place struct {
	claim types.UID
	node  string // "" if there is none, and no scheduler will choose one
	// chosen is true if the scheduler chose the node, false if the claim's user did.
	chosen bool
}

// placeOf returns the place of a claim of the class. ok is false if the claim waits for no agent:
// it is bound, deleted, of another provisioner, filled by a populator, or the scheduler has yet to
// choose a node.
func placeOf(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) (p place, ok bool) {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || contract.Populated(claim) {
		return place{}, false
	}
	p = place{claim: claim.UID, node: contract.Bounded(claim.Annotations[contract.AnnSelectedNode]), chosen: true}
	switch sc.Provisioner {
	case contract.HostPathProvisioner:
		if named := claim.Annotations[contract.AnnProvisionOnNode]; named != "" {
			p.node, p.chosen = contract.Bounded(named), false
		}
	case contract.CSIProvisioner:
	default:
		return place{}, false
	}
	return p, p.node != "" || !contract.Delayed(sc)
}
