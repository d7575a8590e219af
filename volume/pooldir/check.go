package pooldir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// Check checks whether a path can be a pool. It refuses an empty path, the root, a directory of the
// operating system, a path that is not a directory, a missing parent, a directory that cannot be
// written, and one in the container's own filesystem. The last element of the path may be missing;
// Open creates it. A relative path resolves against /. Check follows symbolic links: an administrator
// chooses them.
//
// The error is an ErrInvalid if the path itself is wrong, and an ErrNotReady if that may change, or
// if the disk does not answer. Check changes nothing.
func Check(path string) error {
	const op = "check pool"
	return fault.Failed(op, path, bounded.Alone(op, path, func(*bounded.Call) error { return check(path) }))
}

func check(path string) error {
	if path == "" {
		return fmt.Errorf("%w: the path is empty; name a directory of its own for volumes", fault.ErrInvalid)
	}
	real, there, err := resolve(filepath.Join("/", path))
	if err != nil {
		return err
	}
	if err := checkSystem(real); err != nil {
		return err
	}
	if !there {
		real = filepath.Dir(real)
	}
	if err := checkWritable(real); err != nil {
		return err
	}
	at, err := mount.Of(real)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrNotReady, err)
	}
	return checkOutside(real, at.Point, os.Getpid())
}

// checkOutside returns an error if a directory, of the mount at that point, is in the filesystem of the
// container whose first process is this one: volumes there would end with the container.
func checkOutside(dir, point string, pid int) error {
	if point == "/" && pid == 1 {
		return fmt.Errorf("%w: %s is in the container's own filesystem, and volumes there would end with it; add a volume and "+
			"a mount for it to the DaemonSet", fault.ErrInvalid, dir)
	}
	return nil
}

// resolve returns a path without links. Its last element may be missing.
func resolve(path string) (real string, there bool, err error) {
	real, err = filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return resolveParent(path)
	}
	if err != nil {
		return "", false, unreachable(path, err)
	}
	st, err := os.Stat(real)
	if err != nil {
		return "", false, unreachable(path, err)
	}
	if !st.IsDir() {
		return "", false, fmt.Errorf("%w: it is not a directory; "+
			"name a directory, or a path where the agent can create one", fault.ErrInvalid)
	}
	return real, true, nil
}

func resolveParent(path string) (string, bool, error) {
	if _, err := os.Lstat(path); err == nil {
		return "", false, fmt.Errorf("%w: it is a symbolic link to nothing; create the directory that it names",
			fault.ErrNotReady)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", false, unreachable(filepath.Dir(path), err)
	}
	if st, err := os.Stat(parent); err != nil || !st.IsDir() {
		return "", false, fmt.Errorf("%w: %s is not a directory", fault.ErrInvalid, parent)
	}
	return filepath.Join(parent, filepath.Base(path)), false, nil
}

// unreachable returns why a path cannot be opened.
func unreachable(path string, err error) error {
	var cause *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is missing; create it, or mount the disk it is on; in a container it also needs "+
			"a volume and a mount", fault.ErrNotReady, path)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%w: a part of %s is not a directory", fault.ErrInvalid, path)
	case errors.As(err, &cause):
		return fmt.Errorf("%w: %w", fault.ErrNotReady, err)
	}
	return fmt.Errorf("%w: %s: %w", fault.ErrInvalid, path, err)
}

// A pool in one of these, or below, would mix volumes with files of the operating system.
func systemTrees() []string {
	return []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root",
		"/run", "/sbin", "/sys", "/usr", "/var/lib/kubelet"}
}

// A pool may be below one of these, but not be it: other programs have directories there.
func sharedDirs() []string {
	return []string{"/", "/home", "/tmp", "/var", "/var/lib", "/var/log", "/var/tmp"}
}

func checkSystem(path string) error {
	if slices.Contains(sharedDirs(), path) {
		return fmt.Errorf("%w: %s belongs to the whole system; name a directory of its own for volumes", fault.ErrInvalid,
			path)
	}
	for _, dir := range systemTrees() {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return fmt.Errorf("%w: %s belongs to the operating system; keep volumes outside of %s", fault.ErrInvalid, path, dir)
		}
	}
	return nil
}

func checkWritable(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrNotReady, fault.Path("statfs", dir, err))
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return readOnly(dir, uint32(st.Type))
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("%w: this process cannot write to %s: %w", fault.ErrNotReady, dir, err)
	}
	return nil
}

// readOnly returns what to do about a directory on a read-only filesystem of that type, as statfs(2)
// has it. A container that lacks a mount of the directory shows its own root, an overlay.
func readOnly(dir string, filesystem uint32) error {
	if filesystem == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("%w: %s is in the container's own filesystem, and not on the node; add a volume and a mount for it "+
			"to the DaemonSet", fault.ErrNotReady, dir)
	}
	return fmt.Errorf("%w: %s is on a read-only filesystem; mount it for writing", fault.ErrNotReady, dir)
}

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
