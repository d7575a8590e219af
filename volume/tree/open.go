// Package tree walks directories that a tenant owns and may change meanwhile. No link, mount,
// depth or name of the tenant leads it outside the tree.
//
// It opens every entry through a descriptor of the entry's directory. The number of open
// descriptors does not depend on the tree.
package tree

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// beneath keeps a lookup below its directory: it follows no link of any kind and crosses no mount,
// not even a bind mount of the same filesystem, which has the same st_dev; see openat2(2).
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Open opens name in the directory dir, and nothing outside of it. flags are those of open(2);
// O_CLOEXEC is added. The error is ELOOP at a symbolic link and EXDEV at a mount. The caller closes
// the descriptor.
func Open(dir int, name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: beneath}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		// EAGAIN: a rename or a mount ran at the same time.
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
}

// OpenDir opens the directory name in the directory dir for reading it.
func OpenDir(dir int, name string) (int, error) {
	return Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// openUp opens the directory above dir for reading it. It crosses no mount.
func openUp(dir int) (int, error) {
	return unix.Openat2(dir, "..", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV})
}

// openPath opens name in the directory dir with O_PATH: a link as such, a device without effect.
func openPath(dir int, name string) (int, error) {
	return Open(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
}

// reopen opens the inode of the O_PATH descriptor path with other flags. /proc leads to that inode,
// even if another one has the name now.
func reopen(path, flags int) (int, error) {
	return unix.Open(procPath(path), flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// OpenInode opens a regular file or a directory such that its inode flags can be changed. The error
// is EPERM for anything else: opening a device may have an effect.
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

// procPath returns a path of the inode that fd has open, even if that is a link.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// readlink returns the target of the link that the O_PATH descriptor has open.
func readlink(link int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link, "", buf)
	return string(buf[:max(n, 0)]), err
}
