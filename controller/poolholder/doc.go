// Package poolholder has the commands hold and unmount. hold mounts the filesystem of a claim at
// the directory of a pool on the host, and unmount unmounts it. They do not use the API server.
//
//	options.go  the flags and their validation
//	hold.go     mounts the filesystem, checks that it stays mounted, and unmounts it
package poolholder
