// Package quota sets quotas on directories: the kernel fails a write beyond the quota at
// once. The package starts no other program.
//
// Probe reads the state of a filesystem once and returns its Enforcer:
//
//   - XFS and ext4: project quota. Every inode of a volume carries a project ID
//     that it takes over from its directory, and the kernel counts blocks and
//     inodes for each ID.
//   - btrfs: simple quota (squota, Linux 6.7). A volume is a subvolume in a
//     qgroup of its own, of level 1, where the subvolumes join that a tenant
//     makes inside.
//   - Everything else, and each of these where its quota is off: none, with
//     the reason.
//
// # What is remembered, and where
//
// Nothing in memory. The inode says which ID a directory has, and the kernel
// counts inodes for each ID: one that an inode carries, in any pool, in
// staging, in the trash or far from any pool, is in use, and so is one that
// has a limit. That is asked anew for each new ID, so any number of pools, and
// of processes, share a filesystem without a list of IDs that could be wrong.
// A limit whose ID no inode carries is left over from a crash or a deletion;
// Sweep clears it. On btrfs all this is said of subvolumes: the ID of a volume
// is that of its subvolume.
//
// An ID goes with its directory through renames. The kernel refuses, with
// EXDEV, to rename anything else into a directory that hands down its ID, so
// neither the pool nor staging nor the trash may have such an ID themselves.
//
// # What a limit is not
//
// It keeps neighbours from accidents, not from a hostile tenant:
//
//   - XFS, ext4: the owner of a file, in the initial user namespace, may give
//     it another project ID (FS_IOC_FSSETXATTR; fileattr_set_prepare in fs/),
//     leave its limit that way, or load another one. A pod with hostUsers:
//     false cannot.
//   - ext4: a process with CAP_SYS_RESOURCE, as in a privileged pod, is not
//     held by any limit (ignore_hardlimit in fs/quota/dquot.c).
//   - btrfs: see squota.go.
//
// A limit reserves nothing: whether the disk has room for all of them is for
// the caller to count.
//
// # Files
//
//	limit.go    the contract: Enforcer, Limit, Usage, errors
//	probe.go    which Enforcer a filesystem gets, and why it gets none
//	project.go  project quota; quota.go its system calls, attr.go the inode's flags and ID
//	restore.go  a directory gets its project ID back
//	squota.go   simple quota; btrfs.go its system calls
//	none.go     no quotas
package quota
