//go:build disk

package disk

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// swap turns the device on or off as swap.
func swap(path string, on bool) error {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	call := uintptr(unix.SYS_SWAPOFF)
	if on {
		call = unix.SYS_SWAPON
	}
	if _, _, errno := unix.Syscall(call, uintptr(unsafe.Pointer(name)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// addPartition makes a partition of a disk, as the kernel does that finds one in a partition table.
func addPartition(fd int, start, length int64) error {
	part := unix.BlkpgPartition{Start: start, Length: length, Pno: 1}
	arg := unix.BlkpgIoctlArg{Op: unix.BLKPG_ADD_PARTITION, Datalen: int32(unsafe.Sizeof(part)),
		Data: (*byte)(unsafe.Pointer(&part))}
	return ioctl(fd, unix.BLKPG, unsafe.Pointer(&arg))
}
