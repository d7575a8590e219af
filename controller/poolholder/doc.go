// Package poolholder is the commands hold and unmount, which bring the filesystem of a claim to the directory of a pool on the host
// and take it away again. They use no API server.
//
//	options.go  the flags, and what is wrong with them
//	hold.go     mounts the filesystem, and checks that it stays mounted
//	unmount.go  unmounts it
package poolholder
