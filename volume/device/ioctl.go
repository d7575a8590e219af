package device

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// size returns the size of an open device in bytes.
func size(fd int) (int64, error) {
	var bytes uint64
	err := ioctl(fd, unix.BLKGETSIZE64, unsafe.Pointer(&bytes))
	return int64(bytes), err
}

// sequence returns the number of the attachment of an open device's disk, 0 if the kernel has none.
func sequence(fd int) uint64 {
	var seq uint64
	if ioctl(fd, unix.BLKGETDISKSEQ, unsafe.Pointer(&seq)) != nil {
		return 0
	}
	return seq
}

func readOnly(fd int) bool {
	var ro int32
	return ioctl(fd, unix.BLKROGET, unsafe.Pointer(&ro)) == nil && ro != 0
}

// zeroOut has the device write zeros, by itself if it can. The range is in whole blocks.
func zeroOut(fd int, r span) error { return ioctlSpan(fd, unix.BLKZEROOUT, r) }

// discard marks the range as unused. It may read as anything afterwards.
func discard(fd int, r span) error { return ioctlSpan(fd, unix.BLKDISCARD, r) }

func ioctlSpan(fd int, request uint, r span) error {
	arg := [2]uint64{uint64(r.from), uint64(r.to - r.from)}
	return ioctl(fd, request, unsafe.Pointer(&arg))
}

// rereadPartitions makes the kernel forget the partitions of a wiped disk. A device that cannot
// have any refuses, which changes nothing.
func rereadPartitions(fd int) { _ = ioctl(fd, unix.BLKRRPART, nil) }

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}
