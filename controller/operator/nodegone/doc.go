// Package nodegone handles the volumes of nodes that are gone. It is part of the operator, which
// sees all nodes.
//
//	reconcile.go  watches nodes, PVs and capacity objects
//	home.go       the node that has a volume, and the facts by which identity.NodeGone decides
//	policy.go     what the class of a volume asks for
//	grace.go      the grace period, which belongs to what was lost
//	pulse.go       writes only what was just checked, and notices that the process stood still
//	act.go        reports a volume, or takes the next step of its policy
//	release.go    deletes the claim and the PV
//	retain.go     sets the policy Retain before that, and the former one when the node is back
//	metrics.go    counts the PVs
//
// A node is gone if its Node does not exist, and no agent of it was ready for the grace period. A
// Node of its name that exists has the volumes, Ready or not, unless an administrator gives them up
// by an annotation. PVs without the mark of this cluster are only reported.
//
// The package deletes objects of the API server, no directory: that is on the lost node's disk.
package nodegone
