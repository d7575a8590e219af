package quota

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctl numbers of include/uapi/linux/fs.h, the same on amd64 and arm64.
const (
	fsGetXattr = 0x801c581f // FS_IOC_FSGETXATTR
	fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR
)

// Bits of Attr.Flags, FS_XFLAG_* of include/uapi/linux/fs.h.
const (
	Immutable      = 0x00000008 // no process can change, rename or remove it
	AppendOnly     = 0x00000010 // it can only grow
	ProjectInherit = 0x00000200 // children inherit its project ID
	// hasAttr is set by the kernel; SetAttr must not pass it back.
	hasAttr = 0x80000000
)

// Attr is the kernel's struct fsxattr: 28 bytes, the last 8 unused.
type Attr struct {
	Flags         uint32
	ExtentSize    uint32
	Extents       uint32 // only read
	Project       uint32
	CowExtentSize uint32
	_             [8]byte
}

// GetAttr reads the attributes of the inode that fd has open. fd must not be an O_PATH descriptor.
// The error is ENOTTY or EOPNOTSUPP on a filesystem without attributes.
func GetAttr(fd int) (Attr, error) {
	var a Attr
	return a, ioctl(fd, fsGetXattr, unsafe.Pointer(&a))
}

// SetAttr writes the attributes of the inode that fd has open. Clearing Immutable or AppendOnly
// requires CAP_LINUX_IMMUTABLE; other changes require the owner.
func SetAttr(fd int, a Attr) error {
	a.Flags &^= hasAttr
	return ioctl(fd, fsSetXattr, unsafe.Pointer(&a))
}

// ClearFlags clears flags of the inode that fd has open, and reports whether any of them was set.
func ClearFlags(fd int, flags uint32) (changed bool, err error) {
	a, err := GetAttr(fd)
	if err != nil || a.Flags&flags == 0 {
		return false, err
	}
	a.Flags &^= flags
	return true, SetAttr(fd, a)
}

func ioctl(fd int, request uintptr, data unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(data))
	if errno != 0 {
		return errno
	}
	return nil
}

// fileAttr is struct file_attr of include/uapi/linux/fs.h: 24 bytes.
type fileAttr struct {
	Flags                                       uint64
	ExtentSize, Extents, Project, CowExtentSize uint32
}

// ClearPath is ClearFlags for inodes that cannot be opened: pipes, sockets, devices and links.
// Since Linux 6.17 these can have flags too, and only file_setattr(2) clears them. path leads to
// the inode, as a path below /proc/self/fd does. The error is ENOSYS on a kernel without them.
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
