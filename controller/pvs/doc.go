// Package pvs keeps the records of the pools in step with the PVs of this node.
//
//	pvs.go        the PVs of this node, from memory
//	watch.go      watches them
//	bind.go       binds the record of a volume to its PV
//	backend.go    what depends on the provisioner's name, and is asked for
//	hostpath.go   so it is for hostPath PVs
//	csi.go        and so for CSI PVs
//	adopt.go      makes records of directories that older provisioners made
//	rebind.go     kept PVs that are given to another claim
//	delete.go     deletes volumes, which a single function decides
//	volumes.go    the volume of a PV, for other controllers
//	sweep.go      finds PVs of ours that others made
//	unfinished.go volumes whose PV was never saved
//	migratable.go PVs of other provisioners
//
// A node may have two agents, one for each name. Both watch the PVs with the
// node's label, and each leaves the other's backend alone without a word.
package pvs
