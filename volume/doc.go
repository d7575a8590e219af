// Package volume keeps volumes as directories on one node. It has never heard
// of Kubernetes: callers bring names, sizes and owners, and get back paths.
//
// A Pool is a directory whose children are volumes. What a directory cannot
// say about itself (who asked for it, how many bytes it was promised, whether
// it is half made) stands in a record beside the volumes, written before the
// step it announces. A volume goes by being renamed into the trash, to the name
// that its record has for that from the beginning. A process killed at any moment
// leaves what tells the next start what to do; docs/on-disk-format.md has the
// table, one row for every state and crash.
//
// Where the filesystem enforces limits (package quota), the kernel holds a
// volume to its promise; where it does not, the volume says so.
//
// The private directory of a pool:
//
//	.hostpath-provisioner/    0700, never listed, never a volume
//	    pool.json             the pool's identity
//	    lock                  flock of the owning process, and its name
//	    records/<volume>      one record a volume
//	    staging/<volume>      a volume being made
//	    trash/<id>            a volume being removed
//	    trash/<id>.json       the record it had
//
// The package logs nothing and starts nothing by itself. Errors are of type
// *Error and wrap one of the sentinels of package fault, which volume.go repeats.
//
// The packages below have one duty each: pooldir opens the pool's directory, record
// defines what stands in a record, space accounts for what is allocated and available,
// health checks published volumes, trash removes deleted volumes, bounded makes calls
// on a disk that may hang, file writes durable files, and quota, tree and mount use the
// filesystem and the kernel.
package volume
