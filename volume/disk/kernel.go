package disk

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// linux is the Kernel of this machine.
type linux struct{}

func (linux) Resolve(path string) (Number, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Number{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Number{}, fmt.Errorf("%s: %w", path, ErrNotADevice)
	}
	return numberOf(st.Rdev), nil
}

func (linux) Open(path string, flags int) (File, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return descriptor(fd), nil
}

func numberOf(dev uint64) Number { return Number{unix.Major(dev), unix.Minor(dev)} }

// descriptor is an open File of this machine.
type descriptor int

func (fd descriptor) Number() (Number, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return Number{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Number{}, ErrNotADevice
	}
	return numberOf(st.Rdev), nil
}

func (fd descriptor) Size() (int64, error) {
	var bytes uint64
	err := ioctl(int(fd), unix.BLKGETSIZE64, unsafe.Pointer(&bytes))
	return int64(bytes), err
}

func (fd descriptor) Sequence() uint64 {
	var seq uint64
	if ioctl(int(fd), unix.BLKGETDISKSEQ, unsafe.Pointer(&seq)) != nil {
		return 0
	}
	return seq
}

func (fd descriptor) ReadOnly() bool {
	var ro int32
	return ioctl(int(fd), unix.BLKROGET, unsafe.Pointer(&ro)) == nil && ro != 0
}

func (fd descriptor) Backing() (Number, error) {
	info, err := unix.IoctlLoopGetStatus64(int(fd))
	if err != nil {
		return Number{}, err
	}
	if info.Device == info.Rdevice || info.Rdevice == 0 { // that of the filesystem, or that of a file
		return Number{}, ErrNotADevice
	}
	return numberOf(info.Rdevice), nil
}

func (fd descriptor) Lock() error { return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }

func (fd descriptor) ReadAt(data []byte, from int64) (int, error) {
	return unix.Pread(int(fd), data, from)
}

func (fd descriptor) WriteAt(data []byte, from int64) (int, error) {
	return unix.Pwrite(int(fd), data, from)
}

func (fd descriptor) Zero(from, bytes int64) error { return fd.span(unix.BLKZEROOUT, from, bytes) }

func (fd descriptor) Discard(from, bytes int64) error { return fd.span(unix.BLKDISCARD, from, bytes) }

func (fd descriptor) span(request uint, from, bytes int64) error {
	arg := [2]uint64{uint64(from), uint64(bytes)}
	return ioctl(int(fd), request, unsafe.Pointer(&arg))
}

func (fd descriptor) Flush() error { return unix.Fsync(int(fd)) }

func (fd descriptor) Reread() { _ = ioctl(int(fd), unix.BLKRRPART, nil) }

func (fd descriptor) Close() { unix.Close(int(fd)) }

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
