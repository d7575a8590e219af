// Package provision is the claim loop: it turns the claims of this node into
// directories of its pools and PVs that name them, and takes both away again.
// The provisioner's name decides the PVs' shape: hostPath, or CSI.
//
// One agent runs on every node and there is no leader. Each sees every claim
// go by and must answer its own only; controller/claims filters them:
//
//	provisioner.go what the library calls to make a volume: Provision and its guard
//	delete.go      and to delete one, which a single function decides
//	shape.go       what depends on the provisioner's name, and is asked for
//	hostpath.go    so it is for hostPath PVs
//	csi.go         and so for CSI PVs
//	refuse.go      why a claim cannot be served, in words
//	saving.go      how PVs are saved and deleted for the library
//	progress.go    how far the deletion of each PV is
//	holder.go      which agent has a pool
//	start.go       the order of things
//
// Nothing is decided by an error that the library would report on every node:
// what is not ours is refused in silence by ShouldProvision and ShouldDelete.
package provision
