package claims

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// placement says whose claim it is, seen from one node.
type placement int

const (
	// foreign: another provisioner's, another node's, or nobody's turn yet.
	foreign placement = iota
	// ours: placed on this node, or bound to a PV of it.
	ours
	// elsewhere: an annotation places it on another node, which may not exist.
	elsewhere
	// nobodys: names our provisioner and no node, and no scheduler will choose one.
	nobodys
	// unscheduled: only the scheduler may place it, and its class keeps the
	// scheduler from that.
	unscheduled
	// unserved: no node is chosen yet, and the pool of its class is not offered
	// here. It has no space to publish, so the scheduler may never choose one.
	unserved
	// unknown: its class is not known yet; ask again when it is.
	unknown
)

// placer knows this node and answers whose a claim is.
type placer struct {
	node  string
	rules map[string]Rule // by provisioner; others are not served here
	// class returns nil where there is no such class yet.
	class func(name string) *storagev1.StorageClass
	// offered reports whether the pool of the class, if it is here, is offered.
	offered func(*storagev1.StorageClass) bool
	// boundHere reports whether the PV of that name is of this node.
	boundHere func(pv string) bool
}

// Rule says whose a claim of one provisioner is, which is not bound to a PV of
// this node. Rules are pure.
type Rule func(node string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) placement

// place is pure but for the three lookups.
func (p *placer) place(claim *corev1.PersistentVolumeClaim) placement {
	if pv := claim.Spec.VolumeName; pv != "" && p.boundHere(pv) {
		return ours
	}
	name := class.Of(claim)
	if name == "" || class.Populated(claim) {
		return foreign
	}
	c := p.class(name)
	switch {
	case c == nil && claim.Spec.VolumeName != "":
		return foreign // bound to somebody else's PV; its class may well be gone
	case c == nil:
		return unknown
	}
	r := p.rules[c.Provisioner]
	if r == nil {
		return foreign
	}
	where := r(p.node, claim, c)
	waits := claim.Spec.VolumeName == "" && claim.Annotations[class.AnnSelectedNode] == ""
	if waits && (where == foreign || where == unscheduled) && !p.offered(c) {
		return unserved
	}
	return where
}

// PlaceHostPath places claims that get hostPath PVs. An annotation wins over the
// scheduler's choice, in either binding mode, as it did with older provisioners.
func PlaceHostPath(node string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) placement {
	wanted, chosen := claim.Annotations[class.AnnProvisionOnNode], claim.Annotations[class.AnnSelectedNode]
	switch {
	case wanted == node, wanted == "" && chosen == node:
		return ours
	case claim.Spec.VolumeName != "":
		return foreign
	case wanted != "":
		return elsewhere
	case chosen != "", class.Delayed(c):
		return foreign
	}
	return nobodys
}

// PlaceCSI places claims that get CSI PVs. The scheduler is in full control, as it is
// for any CSI driver. An annotation places nothing.
func PlaceCSI(node string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) placement {
	chosen := claim.Annotations[class.AnnSelectedNode]
	switch {
	case chosen == node:
		return ours
	case claim.Spec.VolumeName != "", chosen != "", class.Delayed(c):
		return foreign
	}
	return unscheduled
}
