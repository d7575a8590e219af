// Package pooldir opens the directory of a pool and keeps it open.
//
// An Opener accepts the directory (Check, its identity, the mount that it must
// be on), locks it against other processes, creates the private directory in it, and calls its
// owner to prepare the pool. Before each use it checks that the path still leads to the same
// directory on the same mount. If not, for example because a disk was mounted or unmounted, it
// reopens the directory or returns an error that is fault.ErrNotReady.
//
// A Dir is the open directory. Everything in a pool is accessed through its file descriptors, so
// the agent never writes below another mount.
package pooldir
