// Package tree walks directories that somebody else owns and may change while
// it looks: a tenant's links, mounts, depths and names lead it nowhere else.
//
// Everything is reached through a descriptor of the directory it lies in. The
// number of open descriptors does not depend on the tree.
package tree

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// beneath keeps a lookup below its directory: no link of any kind is followed
// and no mount is crossed, not even a bind mount of the same filesystem, which
// st_dev does not tell; see openat2(2).
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Open opens name in the directory dir, and nothing outside of it. It returns
// ELOOP where a symbolic link is in the way and EXDEV where a mount is. flags
// are those of open(2); O_CLOEXEC is added. The caller closes the descriptor.
func Open(dir int, name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: beneath}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		// EAGAIN: something was renamed or mounted while the kernel looked.
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
}

// OpenDir opens the directory name in the directory dir for reading it.
func OpenDir(dir int, name string) (int, error) {
	return Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// openUp opens the directory above dir for reading it. No mount is crossed.
func openUp(dir int) (int, error) {
	return unix.Openat2(dir, "..", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV})
}

// openPath opens name in the directory dir to look at it: a link as the link,
// and nothing is set in motion.
func openPath(dir int, name string) (int, error) {
	return Open(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
}

// reopen opens what path has open once more, otherwise. Through /proc it is the
// very inode that was looked at, whatever has the name now.
func reopen(path, flags int) (int, error) {
	return unix.Open(procPath(path), flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// OpenInode opens a regular file or a directory such that its inode flags can
// be changed; of anything else it answers EPERM. A device is never opened: that
// alone may set it in motion.
func OpenInode(dir int, name string) (int, error) {
	path, err := openPath(dir, name)
	if err != nil {
		return -1, err
	}
	defer unix.Close(path)
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return -1, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return -1, unix.EPERM
	}
	return reopen(path, unix.O_RDONLY)
}

// procPath leads to what fd has open, also to a link.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// readlink returns where the link goes that the O_PATH descriptor has open.
func readlink(link int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link, "", buf)
	return string(buf[:max(n, 0)]), err
}
