package tree

import (
	"context"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fiemapCall is FS_IOC_FIEMAP of include/uapi/linux/fs.h.
const fiemapCall = 0xc020660b

// Flags of an extent, FIEMAP_EXTENT_* of include/uapi/linux/fiemap.h.
const (
	extentLast = 0x1
	// notOwn has the flags of extents that take less than their length on disk, or that other files
	// share: UNKNOWN, DELALLOC, ENCODED (compressed), DATA_INLINE, DATA_TAIL, SHARED.
	notOwn       = 0x2 | 0x4 | 0x8 | 0x200 | 0x400 | extentShared
	extentShared = 0x2000
)

type extent struct {
	Logical, Physical, Length uint64
	_                         [2]uint64
	Flags                     uint32
	_                         [3]uint32
}

// extentMap is struct fiemap with room for some extents.
type extentMap struct {
	Start, Length        uint64
	Flags, Mapped, Count uint32
	_                    uint32
	Extents              [128]extent
}

// ownBytes returns how many bytes on disk an open regular file shares with no other file, and how many
// it shares. It does not count space that is reserved for unwritten data, nor compressed extents,
// whose size on disk the kernel does not report. It returns 0 if the filesystem does not report
// extents.
func ownBytes(ctx context.Context, fd int) (own, shared int64, err error) {
	var m extentMap
	for {
		m.Length, m.Count, m.Mapped = ^uint64(0)-m.Start, uint32(len(m.Extents)), 0
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fiemapCall, uintptr(unsafe.Pointer(&m)))
		switch {
		case errno == unix.EOPNOTSUPP || errno == unix.ENOTTY || errno == unix.EINVAL:
			return 0, 0, nil
		case errno == unix.EINTR && ctx.Err() == nil:
			continue
		case errno != 0:
			return own, shared, errors.Join(errno, ctx.Err())
		}
		for _, e := range m.Extents[:min(int(m.Mapped), len(m.Extents))] {
			if e.Flags&notOwn == 0 {
				own += int64(e.Length)
			}
			if e.Flags&extentShared != 0 {
				shared += int64(e.Length)
			}
			if e.Flags&extentLast != 0 {
				return own, shared, nil
			}
			m.Start = e.Logical + e.Length
		}
		if m.Mapped == 0 || ctx.Err() != nil {
			return own, shared, ctx.Err()
		}
	}
}

// sharesExtents reports whether files on the filesystem of fd may share blocks (reflinks,
// snapshots) or be compressed.
func sharesExtents(fd int) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return true
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC: // the former is that of ext2 and ext3, too
		return false
	}
	return true
}
