package tree

import "golang.org/x/sys/unix"

// Rename renames an entry, and replaces nothing: the error is EEXIST if the new name is taken.
//
// ZFS before 2.2, NFS, 9P and many FUSE servers know no rename that replaces nothing (renameat2(2):
// EINVAL). There Rename looks first. The caller holds a lock that keeps its own process from the new
// name; of what others create between the look and the rename only an empty directory is replaced by
// a directory, and a file by a file.
func Rename(oldDir int, oldName string, newDir int, newName string) error {
	err := unix.Renameat2(oldDir, oldName, newDir, newName, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL {
		return err
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(newDir, newName, &st, unix.AT_SYMLINK_NOFOLLOW); err {
	case unix.ENOENT:
	case nil:
		return unix.EEXIST
	default:
		return err
	}
	switch err := unix.Renameat(oldDir, oldName, newDir, newName); err {
	case unix.ENOTEMPTY, unix.ENOTDIR, unix.EISDIR: // created since
		return unix.EEXIST
	default:
		return err
	}
}
