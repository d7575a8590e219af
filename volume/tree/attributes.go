package tree

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// copiedXattr reports whether Copy copies an extended attribute: those of users, trusted ones,
// capabilities, ACLs and how btrfs compresses what is written later. Others depend on the place of the inode or its use:
//
//   - security.selinux has the categories of the original's pod, which would lock out the copy's
//     pod. The copy gets the label of its directory, and the container runtime relabels it.
//   - security.ima and security.evm are bound to the inode.
func copiedXattr(name string) bool {
	switch name {
	case "security.capability", accessACL, defaultACL, "btrfs.compression":
		return true
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.")
}

const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// dropACLs removes the ACLs that a new directory has inherited: what is made in it would inherit
// them, too.
func dropACLs(dir int) error {
	for _, name := range []string{accessACL, defaultACL} {
		if err := unix.Fremovexattr(dir, name); err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// maxXattr is the largest size of a value, and of the list of names: XATTR_SIZE_MAX and
// XATTR_LIST_MAX in the kernel's limits.h.
const maxXattr = 64 << 10

// attributes copies owner, mode, times and extended attributes of inodes. It reuses its buffers.
type attributes struct {
	list, value []byte
}

// copy copies the attributes of from, whose statx is st, to to, which may be an O_PATH descriptor.
// It returns the extended attributes that to's filesystem does not support.
func (a *attributes) copy(from, to int, st *unix.Statx_t) (lost []string, err error) {
	// In this order: a change of owner clears set-user-ID bits and capabilities, and a change of
	// mode changes an ACL.
	if err := unix.Fchownat(to, "", int(st.Uid), int(st.Gid), unix.AT_EMPTY_PATH); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := chmod(to, st.Mode&^unix.S_IFMT); err != nil {
			return nil, err
		}
	}
	if lost, err = a.xattrs(from, to); err != nil {
		return lost, err
	}
	times := []unix.Timespec{
		{Sec: st.Atime.Sec, Nsec: int64(st.Atime.Nsec)},
		{Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)},
	}
	return lost, unix.UtimesNanoAt(unix.AT_FDCWD, procPath(to), times, 0)
}

// chmod sets a mode. The kernel clears the set-group-ID bit without an error if the process is
// neither in the group nor has CAP_FSETID.
func chmod(fd int, mode uint16) error {
	if err := unix.Chmod(procPath(fd), uint32(mode)); err != nil || mode&unix.S_ISGID == 0 {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_ISGID == 0 {
		return fmt.Errorf("set-group-ID bit: %w", unix.EPERM)
	}
	return nil
}

func (a *attributes) xattrs(from, to int) (lost []string, err error) {
	if a.list == nil {
		a.list, a.value = make([]byte, maxXattr), make([]byte, maxXattr)
	}
	source, target := procPath(from), procPath(to)
	n, err := unix.Listxattr(source, a.list)
	if err == unix.EOPNOTSUPP {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(string(a.list[:n]), "\x00") {
		if !copiedXattr(name) {
			continue
		}
		size, err := unix.Getxattr(source, name, a.value)
		if err == unix.ENODATA {
			continue // removed meanwhile
		}
		if err == nil {
			err = unix.Setxattr(target, name, a.value[:size], 0)
		}
		switch err {
		case nil:
		case unix.EOPNOTSUPP, unix.E2BIG, unix.ERANGE:
			lost = append(lost, name)
		default:
			return lost, fmt.Errorf("attribute %s: %w", shown(name), err)
		}
	}
	return lost, nil
}
