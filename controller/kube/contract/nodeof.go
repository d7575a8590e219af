package contract

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// NodeOf returns the node that a claim of the class names, and the annotation that names it: that
// of the claim's user, AnnProvisionOnNode, or else the scheduler's, AnnSelectedNode. Both are ""
// if none does. The user's annotation has no effect for the driver, for rancher.io/local-path and
// for every other provisioner without Dialect.ByAnnotation, nor if the class is nil, which is one
// that is not known.
//
// Every process asks this function. One that reads the annotations itself follows one of them that
// the agents ignore.
func NodeOf(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) (node, by string) {
	if c != nil {
		if d := DialectOf(c.Provisioner); d != nil && d.ByAnnotation && NamesNode(claim) {
			return claim.Annotations[AnnProvisionOnNode], AnnProvisionOnNode
		}
	}
	if chosen := claim.Annotations[AnnSelectedNode]; chosen != "" {
		return chosen, AnnSelectedNode
	}
	return "", ""
}
