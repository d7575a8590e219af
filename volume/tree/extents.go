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
	// extentUnwritten: allocated, and reads as zeros.
	extentUnwritten = 0x800
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

// next reads the extents of an open file that begin at m.Start or later, and moves m.Start behind
// them. more is false with the last one, and on a filesystem that does not report extents.
func (m *extentMap) next(fd int) (found []extent, more bool, err error) {
	for {
		m.Length, m.Count, m.Mapped = ^uint64(0)-m.Start, uint32(len(m.Extents)), 0
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fiemapCall, uintptr(unsafe.Pointer(m)))
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EOPNOTSUPP, unix.ENOTTY, unix.EINVAL:
			return nil, false, nil
		default:
			return nil, false, errno
		}
		if found = m.Extents[:min(int(m.Mapped), len(m.Extents))]; len(found) == 0 {
			return nil, false, nil
		}
		last := found[len(found)-1]
		m.Start = last.Logical + last.Length
		return found, last.Flags&extentLast == 0, nil
	}
}

// countExtents returns how many extents an open file has, 0 on a filesystem that does not report them.
func countExtents(fd int) int {
	m := extentMap{Length: ^uint64(0)} // without room for any, the kernel counts
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fiemapCall, uintptr(unsafe.Pointer(&m)))
	if errno != 0 {
		return 0
	}
	return int(m.Mapped)
}

// ownBytes returns how many bytes on disk an open regular file shares with no other file, and how many
// it shares. It does not count space that is reserved for unwritten data, nor compressed extents,
// whose size on disk the kernel does not report. It returns 0 if the filesystem does not report
// extents.
func ownBytes(ctx context.Context, fd int) (own, shared int64, err error) {
	var m extentMap
	for more := true; more; {
		var found []extent
		if found, more, err = m.next(fd); err != nil {
			return own, shared, errors.Join(err, ctx.Err())
		}
		for _, e := range found {
			if e.Flags&notOwn == 0 {
				own += int64(e.Length)
			}
			if e.Flags&extentShared != 0 {
				shared += int64(e.Length)
			}
		}
		if err := ctx.Err(); err != nil {
			return own, shared, err
		}
	}
	return own, shared, nil
}

// allocate allocates the space in out that in has allocated and not written. Data that is there
// stays.
func allocate(in, out int) error {
	var m extentMap
	for more := true; more; {
		var found []extent
		var err error
		if found, more, err = m.next(in); err != nil {
			return err
		}
		for _, e := range found {
			if e.Flags&extentUnwritten == 0 {
				continue
			}
			err := unix.Fallocate(out, unix.FALLOC_FL_KEEP_SIZE, int64(e.Logical), int64(e.Length))
			if err == unix.EOPNOTSUPP {
				return nil // the same data, in space that is allocated later
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
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
