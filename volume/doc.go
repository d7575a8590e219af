// Package volume keeps volumes as directories on one node. It knows nothing of Kubernetes:
// callers pass names, sizes and owners, and get paths.
//
// A Pool is a directory whose children are volumes. Each volume has a record with its claim,
// its size and its state. The pool writes the record before the step that the record
// announces. It deletes a volume by a rename into the trash, to a name that the record has
// from the beginning. A process may be killed at any moment: the next start recovers by the
// table of docs/on-disk-format.md, which has a row for every state and crash.
//
// If the filesystem enforces quotas, the kernel enforces the size of each volume; otherwise
// Volume.NotEnforced has the reason.
//
// The private directory of a pool:
//
//	.hostpath-provisioner/    0700, never listed, never a volume
//	    pool.json             the pool's identity
//	    lock                  flock of the owning process, and its name
//	    paths.json            other pools of the process that have volumes
//	    shared.json           how many bytes of volumes their files share, on XFS
//	    records/<volume>      one record a volume
//	    staging/<volume>      a volume that is being created
//	    trash/<id>            a deleted volume until its data is removed
//	    trash/<id>.json       the record it had
//	    kept/<id>, <id>.json  a deleted volume that can be brought back
//	    kept.json             for how long each was kept
//
// The package logs nothing and starts no work of its own. Errors are of type *fault.Error and
// wrap one of the sentinels of package fault, which volume.go repeats. States, owners, modes and
// quota policies are package record's.
//
// The packages below have one duty each: pooldir opens the pool's directory, record defines
// and stores records, space accounts for allocated and available bytes, volumequota sets the
// quotas of volumes, health checks published volumes, inspect describes pools, trash removes
// deleted volumes, bounded makes calls on a disk that may hang, file writes durable files, and
// quota, tree and mount use the filesystem and the kernel.
package volume
