package volume_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noFlagsEnv has the test binary run its tests as on a filesystem that knows no flags of renameat2(2).
const noFlagsEnv = "TEST_NO_RENAME_FLAGS"

// refuseRenameFlags has renameat2(2) with flags fail with EINVAL in every thread of this process.
func refuseRenameFlags() error {
	const flags = 16 + 4*8 // the fifth argument in struct seccomp_data
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_RENAMEAT2, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter))); errno != 0 {
		return errno
	}
	return nil
}

// ZFS before 2.2, NFS, 9P and FUSE: the tests that rename pass there, too.
func TestFilesystemWithoutRenameFlags(t *testing.T) {
	if os.Getenv(noFlagsEnv) != "" {
		dir := t.TempDir()
		mkdir(t, filepath.Join(dir, "a"))
		err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "a"), unix.AT_FDCWD, filepath.Join(dir, "b"), unix.RENAME_NOREPLACE)
		if err != unix.EINVAL {
			t.Fatalf("renameat2 with flags: %v, want EINVAL", err)
		}
		return
	}
	tests := exec.Command(os.Args[0], "-test.v", "-test.run="+
		"^(TestFilesystemWithoutRenameFlags|TestCreate|TestDelete|TestRestore|TestPurgeStops|TestPurgeLeaves|TestPurgeBeside|TestSetAside|TestAdopt|TestRecover|TestTrash)")
	tests.Env = append(os.Environ(), noFlagsEnv+"=1")
	out, err := tests.CombinedOutput()
	if passed := strings.Count(string(out), "\n--- PASS"); err != nil || passed < 20 {
		t.Errorf("%d passed, %v\n%s", passed, err, out)
	}
}
