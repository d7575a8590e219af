package quota

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctl numbers of include/uapi/linux/btrfs.h, the same on amd64 and arm64.
const (
	btrfsSubvolCreate = 0x5000940e // BTRFS_IOC_SUBVOL_CREATE
	btrfsSnapDestroy  = 0x5000940f // BTRFS_IOC_SNAP_DESTROY
	btrfsTreeSearch   = 0xd0009411 // BTRFS_IOC_TREE_SEARCH
	btrfsInoLookup    = 0xd0009412 // BTRFS_IOC_INO_LOOKUP
	btrfsGetFlags     = 0x80089419 // BTRFS_IOC_SUBVOL_GETFLAGS
	btrfsSetFlags     = 0x4008941a // BTRFS_IOC_SUBVOL_SETFLAGS
	btrfsFSInfo       = 0x8400941f // BTRFS_IOC_FS_INFO
	btrfsQuotaControl = 0xc0109428 // BTRFS_IOC_QUOTA_CTL
	btrfsGroupAssign  = 0x40189429 // BTRFS_IOC_QGROUP_ASSIGN
	btrfsGroupCreate  = 0x4010942a // BTRFS_IOC_QGROUP_CREATE
	btrfsGroupLimit   = 0x8030942b // BTRFS_IOC_QGROUP_LIMIT
)

const (
	// rootInode is the inode number of every subvolume's directory (BTRFS_FIRST_FREE_OBJECTID).
	rootInode = 256
	// subvolumeReadOnly is the flag of a read-only subvolume (BTRFS_SUBVOL_RDONLY).
	subvolumeReadOnly = 1 << 1
	// enableSimple: squota of QUOTA_CTL (BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA, Linux 6.7).
	enableSimple = 4
	// limitReferenced makes a quota count referenced data (BTRFS_QGROUP_LIMIT_MAX_RFER).
	limitReferenced = 1
)

// volArgs is struct btrfs_ioctl_vol_args: 4096 bytes.
type volArgs struct {
	FD   int64
	Name [4088]byte
}

// subvolume creates or destroys the subvolume name in the directory parent.
func subvolume(parent int, request uintptr, name string) error {
	var a volArgs
	if len(name) >= len(a.Name) {
		return unix.ENAMETOOLONG
	}
	copy(a.Name[:], name)
	return ioctl(parent, request, unsafe.Pointer(&a))
}

// subvolumeOf returns the ID of the subvolume whose root directory fd has open. ok is false for
// another directory.
func subvolumeOf(fd int) (id uint64, ok bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Ino != rootInode {
		return 0, false, err
	}
	a := struct {
		Tree, Object uint64
		_            [4080]byte
	}{Object: rootInode}
	err = ioctl(fd, btrfsInoLookup, unsafe.Pointer(&a))
	return a.Tree, err == nil, err
}

// subvolumeExists reports whether the filesystem of fd has a subvolume with this ID. A removed
// subvolume that the kernel is still cleaning up does not count.
func subvolumeExists(fd int, id uint64) (bool, error) {
	// The search matches nothing; the kernel fails it if there is no such tree.
	a := struct {
		Tree uint64
		_    [4088]byte
	}{Tree: id}
	err := ioctl(fd, btrfsTreeSearch, unsafe.Pointer(&a))
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// IsSubvolume reports whether an inode number of a btrfs is that of a subvolume's root directory.
func IsSubvolume(inode uint64) bool { return inode == rootInode }

// ClearReadOnly makes the btrfs subvolume whose root directory fd has open writable, and reports
// whether it was read-only. The error is ENOTTY or EINVAL for any other directory.
func ClearReadOnly(fd int) (changed bool, err error) {
	var flags uint64
	if err := ioctl(fd, btrfsGetFlags, unsafe.Pointer(&flags)); err != nil || flags&subvolumeReadOnly == 0 {
		return false, err
	}
	flags &^= subvolumeReadOnly
	return true, ioctl(fd, btrfsSetFlags, unsafe.Pointer(&flags))
}

func createGroup(fd int, group uint64) error {
	a := struct{ Create, Group uint64 }{1, group}
	return ioctl(fd, btrfsGroupCreate, unsafe.Pointer(&a))
}

func removeGroup(fd int, group uint64) error {
	a := struct{ Create, Group uint64 }{0, group}
	return ioctl(fd, btrfsGroupCreate, unsafe.Pointer(&a))
}

func assignGroup(fd int, subvolume, group uint64) error {
	a := struct{ Assign, From, To uint64 }{1, subvolume, group}
	return ioctl(fd, btrfsGroupAssign, unsafe.Pointer(&a))
}

func limitGroup(fd int, group uint64, bytes int64) error {
	a := struct{ Group, Flags, MaxReferenced, MaxExclusive, ReservedReferenced, ReservedExclusive uint64 }{
		Group: group, Flags: limitReferenced, MaxReferenced: uint64(bytes),
	}
	return ioctl(fd, btrfsGroupLimit, unsafe.Pointer(&a))
}

func enableSquota(fd int) error {
	a := struct{ Command, Status uint64 }{Command: enableSimple}
	return ioctl(fd, btrfsQuotaControl, unsafe.Pointer(&a))
}

// btrfsSysfs shows the state in the kernel's memory. The trees on disk, which an ioctl could
// search, are up to half a minute older.
const btrfsSysfs = "/sys/fs/btrfs"

// fsInfo is struct btrfs_ioctl_fs_info_args: 1024 bytes.
type fsInfo struct {
	MaxID, Devices uint64
	FSID           [16]byte
	NodeSize       uint32 // of a block of metadata, in bytes
	_              [988]byte
}

func filesystemOf(fd int) (info fsInfo, err error) {
	if err := ioctl(fd, btrfsFSInfo, unsafe.Pointer(&info)); err != nil {
		return info, fmt.Errorf("read the filesystem's ID: %w", err)
	}
	return info, nil
}

// groups returns the directory of the filesystem's qgroups in sysfs.
func (i fsInfo) groups() string {
	id := i.FSID
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	return filepath.Join(btrfsSysfs, uuid, "qgroups")
}

func groupsDir(fd int) (string, error) {
	info, err := filesystemOf(fd)
	return info.groups(), err
}

func sysfsNumber(dir, name string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return int64(n), nil
}
