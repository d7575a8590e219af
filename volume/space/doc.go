// Package space accounts for the disk space of pools: how much is allocated to
// volumes, and how much is available to new ones.
//
// A Ledger belongs to one pool. It sums the sizes of the records, the sizes of volumes
// that are about to get a record, and the bytes that volumes are known to use.
// Filesystems joins the ledgers of all pools of a process: pools on one filesystem
// share its free space, so what is allocated in one is not available in the others.
//
// Callers read the disk, and call this package with the figures. Locks are taken in
// this order: Filesystems, Ledger, record.Store.
package space
