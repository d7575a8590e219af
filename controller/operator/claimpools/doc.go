// Package claimpools mounts the disks of pools that are on the volumes of claims. For each node
// there is a claim, and a Deployment, the holder, whose pod mounts the claim's filesystem at the
// pool's directory on that node. A Job unmounts it after the pool or the node is no longer wanted.
//
//	reconcile.go one pass
//	record.go    adds holders that the record lacks
//	claims.go    creates a claim, and raises its request
//	conflict.go  what of a template the claims of its pool cannot have
//	change.go    creates the holders that are wanted, and changes them one node at a time
//	state.go     the states of the pools
//	objects      what is wanted, and the objects with their names
//	release      ends the holders that are not wanted
//
// The record has a mount until the mount is gone, or its node. A holder whose disk is used never
// ends, for whatever reason it is no longer wanted. Claims have no owner and are never deleted.
package claimpools
