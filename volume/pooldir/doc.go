// Package pooldir opens the directory of a pool and keeps it open.
//
// An Opener accepts the directory (Check, its identity, the mount that it must
// lie on), locks it against other processes, makes the private directory in it,
// and lets its owner prepare the pool. Before each use it checks that the path
// still leads to the same directory on the same mount. If not, for example
// because a disk was mounted or unmounted, it opens the directory anew or
// returns an error that is fault.ErrNotReady.
//
// A Dir is the open directory. Everything in a pool is reached through its file
// descriptors, so nothing is ever written below another mount.
package pooldir
