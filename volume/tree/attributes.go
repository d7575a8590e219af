package tree

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// copiedXattr reports whether Copy copies an extended attribute: those of users, trusted ones,
// capabilities and ACLs. Others depend on the place of the inode or its use:
//
//   - security.selinux has the categories of the original's pod, which would lock out the copy's
//     pod. The copy gets the label of its directory, and the container runtime relabels it.
//   - security.ima and security.evm are bound to the inode.
func copiedXattr(name string) bool {
	switch name {
	case "security.capability", "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.")
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
		if err := unix.Chmod(procPath(to), uint32(st.Mode&^unix.S_IFMT)); err != nil {
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
