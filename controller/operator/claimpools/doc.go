// Package claimpools mounts the disks of pools that are on the volumes of claims. For each node
// there is a claim, and a Deployment, the holder, whose pod mounts the claim's filesystem at the
// pool's directory on that node. A Job unmounts it after the pool or the node is no longer wanted.
//
//	pool.go      what is wanted, and which templates are refused
//	names.go     names and labels, those of the existing operator
//	holder.go    the Deployment
//	unmount.go   the Job
//	reconcile.go one pass
//	record.go    the record of the holders
//	claims.go    creates a claim, and raises its request
//	change.go    creates the holders that are wanted, and changes them one node at a time
//	uses.go      reads whether a holder may end
//	release.go   unmounts what is not wanted
//	state.go     the states of the pools
//
// The record has a mount until the mount is gone, or its node. A holder whose disk is used never
// ends, for whatever reason it is no longer wanted. Claims have no owner and are never deleted.
package claimpools
