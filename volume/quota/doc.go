// Package quota sets quotas on directories: the kernel fails a write beyond the quota at
// once. The package starts no other program.
//
// Probe reads the state of a filesystem once and returns its Enforcer:
//
//   - XFS and ext4: project quota. Every inode of a volume has a project ID, which it inherits from
//     its directory, and the kernel counts blocks and inodes for each ID.
//   - btrfs: simple quota (squota, Linux 6.7). A volume is a subvolume in a qgroup of its own, of
//     level 1. Subvolumes that a tenant creates in the volume join that qgroup.
//   - Any other filesystem, and each of these with its quota off: no quotas, with the reason.
//
// # State
//
// The package keeps no state. The inode has the ID of a directory, and the kernel counts inodes for
// each ID. An ID is in use if any inode on the filesystem has it, in a pool or outside, or if it
// has a quota. Enforcers check that for each new ID, so any number of pools and processes can share
// a filesystem without a list of IDs. A quota whose ID no inode has is left over from a crash or a
// deletion; Sweep clears it. On btrfs the ID of a volume is that of its subvolume.
//
// A directory keeps its ID when it is renamed. The kernel refuses, with EXDEV, to rename anything
// else into a directory whose children inherit its ID, so neither the pool nor staging nor the
// trash may have such an ID.
//
// # Limits of quotas
//
// A quota protects neighbours from accidents, not from a hostile tenant:
//
//   - XFS, ext4: the owner of a file, in the initial user namespace, can give it another project ID
//     (FS_IOC_FSSETXATTR; fileattr_set_prepare in fs/). The file then counts for no quota, or for
//     that of another volume. A pod with hostUsers: false cannot do that.
//   - ext4: the kernel does not enforce quotas for a process with CAP_SYS_RESOURCE, as in a
//     privileged pod (ignore_hardlimit in fs/quota/dquot.c).
//   - btrfs: see squota.go.
//
// A quota reserves nothing. The caller checks whether the disk has space for all quotas.
//
// # Files
//
//	limit.go    the contract: Enforcer, Limit, Usage, errors
//	probe.go    which Enforcer a filesystem gets, and the one without quotas
//	project.go  project quota; quota.go has its system calls, attr.go the inode's flags and ID
//	squota.go   simple quota; btrfs.go has its system calls, snapshot.go those of snapshots
package quota
