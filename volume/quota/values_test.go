package quota

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel reads and writes as many bytes as its own structs have.
func TestLayouts(t *testing.T) {
	var q diskQuota
	for _, row := range []struct {
		name      string
		got, want uintptr
	}{
		{"struct fsxattr", unsafe.Sizeof(Attr{}), 28},
		{"struct fs_disk_quota", unsafe.Sizeof(q), 112},
		{"d_id", unsafe.Offsetof(q.ID), 4},
		{"d_blk_hardlimit", unsafe.Offsetof(q.BlockHard), 8},
		{"d_bcount", unsafe.Offsetof(q.Blocks), 40},
		{"struct fs_quota_statv", unsafe.Sizeof(quotaState{}), 160},
		{"struct btrfs_ioctl_vol_args", unsafe.Sizeof(volArgs{}), 4096},
	} {
		if row.got != row.want {
			t.Errorf("%s: %d, want %d", row.name, row.got, row.want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for _, row := range []struct{ bytes, block, want int64 }{
		{1, 4096, 4096}, {4096, 4096, 4096}, {4097, 4096, 8192}, {1025, 1024, 2048},
		{mostBytes, 65536, mostBytes},
	} {
		if got := roundUp(row.bytes, row.block); got != row.want {
			t.Errorf("%d in blocks of %d: %d, want %d", row.bytes, row.block, got, row.want)
		}
	}
}

func TestAllowed(t *testing.T) {
	used := Usage{Bytes: 60, Inodes: 6, Limit: Limit{Bytes: 100, Inodes: 10}}
	free := Usage{Bytes: 60, Inodes: 6}
	for _, row := range []struct {
		name string
		now  Usage
		want Limit
		err  error
	}{
		{"raised", used, Limit{Bytes: 200, Inodes: 20}, nil},
		{"lowered to what is in use", used, Limit{Bytes: 60, Inodes: 6}, nil},
		{"bytes in use", used, Limit{Bytes: 59, Inodes: 10}, ErrUsed},
		{"inodes in use", used, Limit{Bytes: 100, Inodes: 5}, ErrUsed},
		{"no limit of inodes", used, Limit{Bytes: 100}, nil},
		{"the first limit", free, Limit{Bytes: 1, Inodes: 1}, nil},
		{"raised, and more is in use", Usage{Bytes: 60, Limit: Limit{Bytes: 10}}, Limit{Bytes: 20}, nil},
	} {
		if err := row.want.allowed(row.now); !errors.Is(err, row.err) {
			t.Errorf("%s: %v, want %v", row.name, err, row.err)
		}
	}
}

func TestGroupID(t *testing.T) {
	for _, row := range []struct {
		name string
		want uint64
	}{
		{"1_1073742080", 1073742080}, {"0_1073742080", 0}, {"1_256", 0}, {"1_1073741824", 0},
		{"1_2147483648", 0}, {"mode", 0}, {"1_", 0}, {"1_1073742080x", 0},
	} {
		if id, ok := groupID(row.name); ok != (row.want != 0) || ok && id != row.want {
			t.Errorf("%s: %d, %v", row.name, id, ok)
		}
	}
}

// Only a refusal is the fault of the container.
func TestUnreported(t *testing.T) {
	const words = "the container lacks the capability SYS_ADMIN, or its seccomp profile refuses this call"
	for err, want := range map[error]bool{unix.EPERM: true, unix.EIO: false} {
		if got := unreported(err); strings.Contains(got, words) != want || !strings.Contains(got, err.Error()) {
			t.Errorf("%v: %q, want the words %v", err, got, want)
		}
	}
}
