package pooldir

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// The oldest kernel that has every call we make: openat2(2) came with 5.6,
// STATX_MNT_ID with 5.8, quotactl_fd(2) with 5.14.
const (
	minKernelMajor = 5
	minKernelMinor = 14
)

// CheckKernel returns an error on a kernel that is too old for a Pool, and if a seccomp profile
// refuses openat2(2), by which a Pool opens everything. There is no second code path for those.
func CheckKernel() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("uname: %w", err)
	}
	if err := checkKernel(unix.ByteSliceToString(u.Release[:])); err != nil {
		return err
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return fmt.Errorf("%w: openat2: %w: a seccomp profile refuses this call; allow it, or use the default profile "+
			"of a container runtime that knows it",
			fault.ErrInvalid, err)
	}
	return unix.Close(fd)
}

// checkKernel lets through a release that does not begin with two numbers:
// its builder knows what is in it.
func checkKernel(release string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n < 2 {
		return nil
	}
	if major > minKernelMajor || major == minKernelMajor && minor >= minKernelMinor {
		return nil
	}
	return fmt.Errorf("%w: the kernel is %s, and Linux %d.%d or later is needed", fault.ErrInvalid, release,
		minKernelMajor, minKernelMinor)
}
