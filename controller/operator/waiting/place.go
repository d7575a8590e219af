package waiting

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/class"
)

// place is the node whose agent has to serve a claim.
type place struct {
	claim types.UID
	node  string // "" if there is none, and no scheduler will choose one
	// chosen is true if the scheduler chose the node, false if the claim's user did.
	chosen bool
}

// placeOf returns the place of a claim of the class. ok is false if the claim waits for no
// agent: it is bound, deleted, of another provisioner, filled by a populator, or the
// scheduler has yet to choose a node.
func placeOf(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) (p place, ok bool) {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || class.Populated(claim) {
		return place{}, false
	}
	p = place{claim: claim.UID, node: class.Bounded(claim.Annotations[class.AnnSelectedNode]), chosen: true}
	switch sc.Provisioner {
	case class.HostPathProvisioner:
		if named := claim.Annotations[class.AnnProvisionOnNode]; named != "" {
			p.node, p.chosen = class.Bounded(named), false
		}
	case class.CSIProvisioner:
	default:
		return place{}, false
	}
	return p, p.node != "" || !class.Delayed(sc)
}
