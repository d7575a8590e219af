// Package nodegone handles the volumes of nodes that are gone. It is part of the operator, which sees all nodes.
//
//	reconcile.go  watches nodes, PVs and capacity objects, and waits for the grace period
//	home.go       the node that has a volume, and whether it is gone
//	policy.go     what the class of a volume asks for
//	act.go        reports a volume, or takes the next step of its policy
//	release.go    deletes the claim and the PV
//	retain.go     sets the policy Retain before that, and the former one when the node is back
//	metrics.go    counts the PVs
//
// A node is gone if its Node was deleted, or a Node of the same name took its place, unless an agent runs there and is ready. That
// one has the volume, or reports that it is missing. A node that is not ready is not gone.
//
// The package deletes objects of the API server. It never deletes a directory: that is on the disk of the node that is gone.
package nodegone
