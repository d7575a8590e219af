package claims

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// placement is the relation of a claim to one node.
type placement int

const (
	// remote: of another provisioner, of another node, or waiting for the scheduler.
	remote placement = iota
	// local: placed on this node, or bound to a PV of it.
	local
	// remoteByAnnotation: an annotation names another node, which may not exist.
	remoteByAnnotation
	// remoteByScheduler: the scheduler chose another node, which may not exist.
	remoteByScheduler
	// remoteByPV: it names a PV that this agent does not know, and that may not exist.
	remoteByPV
	// unchosen: the scheduler has yet to choose one of the nodes that publish enough
	// space for its class. There may be none.
	unchosen
	// unassigned: names our provisioner and no node, and the scheduler will not choose one.
	unassigned
	// unscheduled: only the scheduler may place it, and its class keeps the scheduler from that.
	unscheduled
	// unserved: no node is chosen yet, and the pool of its class is not offered here. Such a pool
	// has no space to publish, so the scheduler may never choose a node.
	unserved
	// remoteBySource: its volume is a copy of another claim's, which is not bound to a PV of this node, as
	// far as is known. The claim is held until it is.
	remoteBySource
	// unknown: its class does not exist yet. The claim is held until the class appears.
	unknown
)

type placer struct {
	node     string
	dialects map[string]contract.Dialect // by provisioner; see Config
	// class returns the class with that name, or nil if there is none yet.
	class func(name string) *storagev1.StorageClass
	// offered reports whether this node offers the pool of the class, if it has it.
	offered func(*storagev1.StorageClass) bool
	// published is the provisioner for whose claims the scheduler chooses among the nodes
	// that publish enough space, "" for none.
	published string
	// isLocalPV reports whether the PV with that name is on this node.
	isLocalPV func(pv string) bool
	// copiesHere reports whether this node has the source of the claim, which is another claim, or has begun
	// the copy.
	copiesHere func(*corev1.PersistentVolumeClaim) bool
}

// place returns the placement of the claim. It is pure except for the lookups of the placer.
// A claim that a populator fills is remote until it has a PV of this node.
func (p *placer) place(claim *corev1.PersistentVolumeClaim) placement {
	if pv := claim.Spec.VolumeName; pv != "" && p.isLocalPV(pv) {
		return local
	}
	name := contract.Of(claim)
	if name == "" || contract.Populated(claim) {
		return remote
	}
	c := p.class(name)
	switch {
	case c == nil && claim.Spec.VolumeName != "" && !waitsForPV(claim):
		return remote // bound to a PV of another node; its class may have been deleted
	case c == nil:
		return unknown
	}
	dialect, served := p.dialects[c.Provisioner]
	if !served {
		return remote
	}
	if claim.Spec.VolumeName == "" && contract.Copies(claim, c) { // whatever node the scheduler chose
		if p.copiesHere(claim) {
			return local
		}
		return remoteBySource
	}
	where := placeUnbound(dialect, p.node, claim, c)
	named, _ := contract.NodeOf(claim, c)
	waits := claim.Spec.VolumeName == "" && named == ""
	switch {
	case waits && (where == remote || where == unscheduled) && !p.offered(c):
		return unserved
	case waits && where == remote && c.Provisioner == p.published:
		return unchosen
	}
	return where
}

// waitsForPV reports whether the claim names a PV and was never bound to it.
func waitsForPV(claim *corev1.PersistentVolumeClaim) bool {
	phase := claim.Status.Phase
	return claim.Spec.VolumeName != "" && phase != corev1.ClaimBound && phase != corev1.ClaimLost
}

// placeUnbound returns the placement of a claim that is not bound to a PV of the node, and whose
// class c exists. With the zero Dialect only the scheduler chooses the node, as for any CSI driver.
func placeUnbound(d contract.Dialect, node string, claim *corev1.PersistentVolumeClaim,
	c *storagev1.StorageClass) placement {
	named, by := contract.NodeOf(claim, c)
	switch {
	case named == node:
		return local
	case d.OnlyNode && named == "" && !contract.Delayed(c):
		return local // also bound, although its PV may not be in memory yet
	case waitsForPV(claim):
		return remoteByPV
	case claim.Spec.VolumeName != "":
		return remote
	case by == contract.AnnProvisionOnNode:
		return remoteByAnnotation
	case named != "":
		return remoteByScheduler
	case contract.Delayed(c):
		return remote
	case d.ByAnnotation:
		return unassigned
	}
	return unscheduled
}
