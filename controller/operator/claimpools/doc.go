// Package claimpools keeps the disks of pools that lie on the volumes of claims. For each node it has a claim, and a Deployment
// whose pod mounts the claim's filesystem at the pool's directory on that node. A Job unmounts it after the pool or the node is
// no longer wanted.
//
//	pool.go      what is wanted, and which templates are refused
//	names.go     names and labels, those of the existing operator
//	holder.go    the Deployment
//	unmount.go   the Job
//	keep.go      creates and changes what is wanted
//	claims.go    creates a claim, and raises its request
//	release.go   unmounts what is not wanted
//	state.go     the states of the pools
//
// The Deployment is the record of a mount: it is deleted after the mount is gone, or its node. Claims have no owner and are
// never deleted.
package claimpools
