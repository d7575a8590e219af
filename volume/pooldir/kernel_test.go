package pooldir

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

func TestCheckKernel(t *testing.T) {
	for release, fine := range map[string]bool{
		"6.18.44-fc": true, "5.14.0-362.el9.x86_64": true, "5.13.19": false, "4.18.0-553.el8": false, "custom": true, "10.0": true,
	} {
		if got := checkKernel(release) == nil; got != fine {
			t.Errorf("%s: fine %v", release, got)
		}
	}
	if err := CheckKernel(); err != nil {
		t.Errorf("this machine: %v", err)
	}
}

// A container's seccomp profile may refuse openat2, as those from before Linux 5.6 do. Another
// process has such a filter.
func TestCheckKernelUnderSeccomp(t *testing.T) {
	const inside = "HPP_TEST_REFUSE_OPENAT2"
	if os.Getenv(inside) != "" {
		refuse(t, unix.SYS_OPENAT2, unix.EPERM)
		if err := CheckKernel(); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "openat2: operation not permitted: a seccomp profile") {
			t.Errorf("error %v", err)
		}
		if _, err := OpenToRead("/"); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("open to read: %v", err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCheckKernelUnderSeccomp$")
	cmd.Env = append(os.Environ(), inside+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// refuse has a system call fail in all threads of this process from now on.
func refuse(t *testing.T, call uint32, with unix.Errno) {
	t.Helper()
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number, of struct seccomp_data
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(with)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); e != 0 {
		t.Fatal(e)
	}
}
