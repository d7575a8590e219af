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
	Immutable      = 0x00000008 // nobody may change, rename or remove it
	AppendOnly     = 0x00000010 // it may only grow
	ProjectInherit = 0x00000200 // children take over its project ID
	// hasAttr is set by the kernel alone; handing it back is an error.
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

// GetAttr reads the attributes of the inode that fd has open; an O_PATH
// descriptor will not do. A filesystem without them answers ENOTTY or
// EOPNOTSUPP.
func GetAttr(fd int) (Attr, error) {
	var a Attr
	return a, ioctl(fd, fsGetXattr, &a)
}

// SetAttr writes the attributes of the inode that fd has open. Clearing Immutable
// or AppendOnly takes CAP_LINUX_IMMUTABLE; everything else takes the owner.
func SetAttr(fd int, a Attr) error {
	a.Flags &^= hasAttr
	return ioctl(fd, fsSetXattr, &a)
}

// ClearFlags takes flags from the inode that fd has open and reports whether any
// of them was set. It does nothing where none was.
func ClearFlags(fd int, flags uint32) (changed bool, err error) {
	a, err := GetAttr(fd)
	if err != nil || a.Flags&flags == 0 {
		return false, err
	}
	a.Flags &^= flags
	return true, SetAttr(fd, a)
}

func ioctl(fd int, request uintptr, a *Attr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a)))
	if errno != 0 {
		return errno
	}
	return nil
}
