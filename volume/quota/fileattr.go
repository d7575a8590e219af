package quota

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileAttr is struct file_attr of include/uapi/linux/fs.h: 24 bytes.
type fileAttr struct {
	Flags                                       uint64
	ExtentSize, Extents, Project, CowExtentSize uint32
}

// ClearPath is ClearFlags for inodes that cannot be opened: pipes, sockets, devices and links.
// Since Linux 6.17 these can have flags too, and only file_setattr(2) clears them. path leads to
// the inode, as a path below /proc/self/fd does. The error is ENOSYS on an older kernel, where they
// have no flags.
func ClearPath(path string, flags uint32) (changed bool, err error) {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return false, err
	}
	var a fileAttr
	if err := fileAttrCall(unix.SYS_FILE_GETATTR, p, &a); err != nil || a.Flags&uint64(flags) == 0 {
		return false, err
	}
	a.Flags &^= uint64(flags) | hasAttr
	return true, fileAttrCall(unix.SYS_FILE_SETATTR, p, &a)
}

func fileAttrCall(call uintptr, path *byte, a *fileAttr) error {
	at := unix.AT_FDCWD
	_, _, errno := unix.Syscall6(call, uintptr(at), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(a)),
		unsafe.Sizeof(*a), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
