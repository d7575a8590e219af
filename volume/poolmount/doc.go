// Package poolmount mounts the filesystem of a claim at the directory of a pool, and unmounts it.
//
//	attach.go  mounts it
//	detach.go  unmounts it
//	place.go   the pool's directory, and the record of its mount
//
// The process runs in a container that has the claim, and the directory above the pool's as a
// volume of the host with mount propagation Bidirectional. So a mount in the container is one of
// the host, and outlives the container.
//
// A file in the directory above the pool's records the filesystem that Attach mounts. Detach
// unmounts that filesystem and no other.
package poolmount
