// Package pvs binds the records of the pools to the PVs of this node.
//
//	pvs.go         the PVs of this node, from memory
//	watch.go       watches them and the claims
//	bind.go        validates a PV and binds the record of its volume
//	whose.go       whether the volume of a PV is this node's
//	backend.go     the PVs of one provisioner
//	adopt.go       creates records for the directories of older provisioners
//	rebind.go      rebinds a volume to the next claim of its PV
//	delete.go      deletes the volume of a PV
//	source.go      the PVs whose volumes other claims copy
//	sweep.go       finds PVs of this node that have no label
//	unfinished.go  rolls back volumes whose PV was never saved
//	migratable.go  PVs of other provisioners
//	volumes.go     the volume of a PV, for other controllers
//
// A node may have two agents, one for each provisioner's name. Both watch the PVs with
// the node's label, and each ignores the PVs of the other's backend.
package pvs
