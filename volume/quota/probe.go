package quota

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Hooks are functions that an Enforcer calls. Each may be nil.
type Hooks struct {
	// Step is called before every change, with its name.
	Step func(string)
	// Taken reports whether an ID is recorded for a directory, even if the kernel counts no inode
	// for it at the moment. No new directory gets such an ID. It may be called by many goroutines.
	Taken func(id uint64) bool
}

// Probe returns the Enforcer of the filesystem of dir, as the kernel reports its quotas: the
// ioctls that set a project ID succeed with quotas off, too. It changes nothing on the disk.
// Call it once when a pool is opened. If quotas are not enforced, the Enforcer's Support has
// the reason; an error means that dir cannot be read.
func Probe(dir int, hooks Hooks) (Enforcer, error) {
	if hooks.Step == nil {
		hooks.Step = func(string) {}
	}
	if hooks.Taken == nil {
		hooks.Taken = func(uint64) bool { return false }
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(dir, &st); err != nil {
		return nil, fmt.Errorf("statfs: %w", err)
	}
	switch uint32(st.Type) {
	case unix.XFS_SUPER_MAGIC:
		return probeProject(dir, MethodXFS, xfsReasons, hooks), nil
	case unix.EXT4_SUPER_MAGIC:
		return probeProject(dir, MethodExt4, ext4Reasons, hooks), nil
	case unix.BTRFS_SUPER_MAGIC:
		return probeBtrfs(dir, hooks.Step), nil
	}
	return none{reason: "only XFS, ext4 and btrfs have quotas on directories, and this filesystem is " +
		filesystem(uint32(st.Type))}, nil
}

// others are the names of filesystems without quotas on directories that a pool may be on, by
// their numbers in statfs(2). The number of ZFS is from its own include/sys/fs/zfs.h.
var others = map[uint32]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "NFS",
	unix.F2FS_SUPER_MAGIC: "F2FS", unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9P", 0x2fc12fc1: "ZFS",
}

// filesystem names the filesystem of a type.
func filesystem(number uint32) string {
	if name, ok := others[number]; ok {
		return name
	}
	return fmt.Sprintf("of the type %#x", number)
}

// reasons describe why project quota is not in force, and what to do.
type reasons struct{ kernel, uncounted, unenforced string }

var (
	xfsReasons = reasons{
		kernel:     "the kernel is built without CONFIG_XFS_QUOTA",
		uncounted:  "XFS is mounted without the option prjquota; unmount it and mount it with that (a remount does not do)",
		unenforced: "XFS is mounted with pqnoenforce, which counts only; unmount it and mount it with prjquota",
	}
	ext4Reasons = reasons{
		kernel: "the kernel is built without CONFIG_QUOTA, or a seccomp profile hides its call quotactl_fd",
		uncounted: "ext4 lacks the features project and quota; unmount it, run tune2fs -O project,quota -Q prjquota " +
			"on the device, and mount it with the option prjquota",
		unenforced: "ext4 is mounted without the option prjquota; mount it with that",
	}
)

func probeProject(dir int, method Method, why reasons, hooks Hooks) Enforcer {
	counted, enforced, err := projectState(dir)
	switch {
	case errors.Is(err, unix.ENOSYS) && !quotaBuiltIn(dir, method):
		return none{reason: why.kernel}
	case err != nil && !errors.Is(err, unix.ENOSYS):
		return none{reason: unreported(err)}
	case !counted:
		return none{reason: why.uncounted}
	case !enforced:
		return none{reason: why.unenforced}
	}
	return newProject(method, hooks)
}

// unreported describes an error of projectState. The kernel lets every process ask for the state of
// quotas (check_quotactl_permission in fs/quota/quota.c), so that it is a seccomp profile that does
// not: the default ones of container runtimes do only with CAP_SYS_ADMIN.
func unreported(err error) string {
	text := fmt.Sprintf("the kernel does not report its quotas: quotactl_fd: %v", err)
	if errors.Is(err, unix.EPERM) {
		text += ": the container lacks the capability SYS_ADMIN, or its seccomp profile refuses this call"
	}
	return text
}

func probeBtrfs(dir int, step func(string)) Enforcer {
	groups, reason, err := squotaState(dir)
	if err != nil {
		return none{reason: fmt.Sprintf("btrfs does not report its quotas: %v", err)}
	}
	if reason == "" {
		return squota{step: step}
	}
	if _, err := os.Stat(groups); !errors.Is(err, fs.ErrNotExist) {
		return none{reason: reason} // full quotas count each subvolume, at a cost
	}
	return subvolumes{none: none{reason: reason}, step: step}
}

// none is the Enforcer of a filesystem without quotas.
type none struct{ reason string }

func (n none) Support() Support { return Support{Method: MethodNone, Reason: n.reason} }

func (n none) Make(parent int, name string) error { return unix.Mkdirat(parent, name, 0o700) }

func (n none) Set(int, uint64, Limit) (uint64, error) { return 0, n.refused() }

func (n none) Usage(int, uint64) (Usage, error) { return Usage{}, n.refused() }

func (n none) refused() error { return fmt.Errorf("%w: %s", ErrNone, n.reason) }

func (n none) Remove(int, string) (bool, error) { return false, nil }

func (n none) Sweep(int) (int, error) { return 0, nil }
