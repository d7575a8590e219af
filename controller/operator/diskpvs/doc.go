// Package diskpvs keeps the PVs of raw disks when their Node object is deleted, and withdraws those of
// a node that is gone. It is part of the operator: agents of raw disks may not change PVs, and that
// of a Node that does not exist does nothing.
//
//	reconcile.go  watches nodes and PVs
//	keep.go       removes the Node from the owners of a PV, and marks the PV as one of this cluster
//	absent.go     the PVs of a Node that does not exist: withdrawn if they are free, reported otherwise
//
// The package deletes PVs that no claim has or had, and reads no disk.
package diskpvs
