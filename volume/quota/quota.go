package quota

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands of quotactl_fd(2) for project quota: QCMD(cmd, PRJQUOTA) of include/uapi/linux/quota.h
// and dqblk_xfs.h. The generic quota code behind ext4 answers those of XFS, too (fs/quota/quota.c).
const (
	getQuota     = 0x5803<<8 | projectQuota // Q_XGETQUOTA
	setLimits    = 0x5804<<8 | projectQuota // Q_XSETQLIM
	getState     = 0x5808<<8 | projectQuota // Q_XGETQSTATV
	getNextQuota = 0x5809<<8 | projectQuota // Q_XGETNEXTQUOTA
	projectQuota = 2                        // PRJQUOTA
)

// basicBlock is the unit of space in diskQuota, in bytes.
const basicBlock = 512

// diskQuota is struct fs_disk_quota of dqblk_xfs.h: 112 bytes.
type diskQuota struct {
	Version              int8 // FS_DQUOT_VERSION
	Flags                int8 // FS_PROJ_QUOTA
	FieldMask            uint16
	ID                   uint32
	BlockHard, BlockSoft uint64
	InodeHard, InodeSoft uint64
	Blocks, Inodes       uint64 // in use
	_                    [56]byte
}

// allLimits has the bits of diskQuota.FieldMask for both limits of blocks and of inodes. Soft
// limits are set to none: one becomes hard after a week, and statfs(2) would show it.
const allLimits = 1 | 2 | 4 | 8 // FS_DQ_ISOFT | IHARD | BSOFT | BHARD

func (q *diskQuota) usage() Usage {
	return Usage{
		Bytes: int64(q.Blocks * basicBlock), Inodes: q.Inodes,
		Limit: Limit{Bytes: int64(q.BlockHard * basicBlock), Inodes: q.InodeHard},
	}
}

func (q *diskQuota) limited() bool {
	return q.BlockHard|q.BlockSoft|q.InodeHard|q.InodeSoft != 0
}

// used reports whether the ID is in use: by an inode, by space about to be freed, or by a limit.
func (q *diskQuota) used() bool { return q.Inodes|q.Blocks != 0 || q.limited() }

// quotaState is struct fs_quota_statv of dqblk_xfs.h, as far as we read it,
// and the rest of its 160 bytes.
type quotaState struct {
	Version int8 // FS_QSTATV_VERSION1, set by the caller
	_       uint8
	Flags   uint16
	_       [156]byte
}

const (
	projectCounted  = 0x10 // FS_QUOTA_PDQ_ACCT
	projectEnforced = 0x20 // FS_QUOTA_PDQ_ENFD
)

// projectState reports whether the kernel counts and enforces project quota on the filesystem of
// fd. ENOSYS means that quotas are off, or that the kernel does not support them (quota_getstatev
// in fs/quota/quota.c); see quotaBuiltIn.
func projectState(fd int) (counted, enforced bool, err error) {
	s := quotaState{Version: 1}
	err = quotactl(fd, getState, 0, unsafe.Pointer(&s))
	return s.Flags&projectCounted != 0, s.Flags&projectEnforced != 0, err
}

// quotaBuiltIn reports whether the kernel was built with quotas for the filesystem of fd. It is for
// filesystems for which projectState returns ENOSYS.
func quotaBuiltIn(fd int, method Method) bool {
	if method == MethodXFS {
		// XFS creates this file only with CONFIG_XFS_QUOTA (fs/xfs/xfs_stats.c). With quotas off,
		// it fails every command as without that option.
		_, err := os.Stat("/proc/fs/xfs/xqm")
		return err == nil
	}
	_, err := quotaOf(fd, 0)
	return !errors.Is(err, unix.ENOSYS)
}

// quotaOf returns the counters of an ID, all zero for an ID that is not in use.
func quotaOf(fd int, id uint32) (diskQuota, error) {
	q := diskQuota{Version: 1}
	err := quotactl(fd, getQuota, id, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) {
		return diskQuota{ID: id}, nil
	}
	return q, err
}

// nextQuota returns the counters of the lowest ID from id on. ok is false if there is none.
func nextQuota(fd int, id uint32) (q diskQuota, ok bool, err error) {
	q.Version = 1
	err = quotactl(fd, getNextQuota, id, unsafe.Pointer(&q))
	// The generic code returns ENOENT or, for an ID beyond its file, ESRCH.
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return q, false, nil
	}
	return q, err == nil && q.ID >= id, err
}

// setQuota sets the limits of an ID. 0 is no limit.
func setQuota(fd int, id uint32, l Limit) error {
	q := diskQuota{
		Version: 1, Flags: projectQuota, FieldMask: allLimits, ID: id,
		BlockHard: uint64(l.Bytes) / basicBlock, InodeHard: l.Inodes,
	}
	return quotactl(fd, setLimits, id, unsafe.Pointer(&q))
}

func quotactl(fd int, cmd uintptr, id uint32, data unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), cmd, uintptr(id), uintptr(data), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
