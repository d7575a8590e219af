package quota

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// squota enforces quotas by simple quota of btrfs.
//
// The ID of a volume is derived from the ID of its subvolume, which is unique, and is that of a
// qgroup of level 1. The quota is on the qgroup and not on the subvolume, because a tenant with any
// user ID can create subvolumes in the volume. The kernel adds those to the qgroup
// (qgroup_auto_inherit in fs/btrfs/qgroup.c). The older, full quota does not, so it is not used.
//
// A subvolume is not limited if its creator names other qgroups, or none
// (BTRFS_SUBVOL_QGROUP_INHERIT), which requires no privilege. Data that two volumes share by
// reflink counts for the volume that wrote it.
type squota struct {
	step func(string) // announces a change
}

// groupLevel is level 1 of a qgroup's ID; the level is in the upper 16 bits.
const groupLevel = 1 << 48

func (squota) Support() Support { return Support{Method: MethodBtrfs} }

// makeTries bounds the subvolumes that one Make makes. The next Make goes on with later IDs.
const makeTries = 32

// Make makes a subvolume for which the kernel counts nothing of others. After a restart the kernel
// gives the ID of a removed subvolume again, and data of that one counts for the ID while others
// have it by reflink: such a subvolume is removed, and the next one has another ID.
func (s squota) Make(parent int, name string) error {
	for range makeTries {
		s.step("make")
		if err := subvolume(parent, btrfsSubvolCreate, name); err != nil {
			return err
		}
		used, err := inherited(parent, name, nil)
		if used {
			s.step("unmake")
			err = subvolume(parent, btrfsSnapDestroy, name)
		} else if err == nil {
			s.step("mode")
			return closeToOthers(parent, name)
		}
		if err != nil {
			return err
		}
	}
	return errInherited
}

// closeToOthers sets the mode of a new subvolume: the kernel has applied the umask to 0777. It follows no
// link, as fchmodat(2) would.
func closeToOthers(parent int, name string) error {
	dir, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Fchmod(dir, 0o700)
}

var errInherited = fmt.Errorf("data of removed volumes, which others have by reflink, counts for %d new subvolumes; "+
	"the next attempt makes others", makeTries)

// inherited reports whether the kernel counts more for a new subvolume than its first block, which
// has no data. If the caller has the qgroups that were there before, only those count.
func inherited(parent int, name string, before map[string]bool) (bool, error) {
	dir, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open the new subvolume: %w", err)
	}
	defer unix.Close(dir)
	id, err := idOf(dir)
	if err != nil {
		return false, err
	}
	info, err := filesystemOf(dir)
	if err != nil {
		return false, err
	}
	for _, group := range []string{fmt.Sprintf("0_%d", id-firstID), fmt.Sprintf("1_%d", id)} {
		if before != nil && !before[group] {
			continue
		}
		n, err := sysfsNumber(filepath.Join(info.groups(), group), "referenced")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("read the usage of the qgroup %s: %w", group, err)
		}
		if n > int64(info.NodeSize) {
			return true, nil
		}
	}
	return false, nil
}

func (s squota) Set(dir int, given uint64, want Limit) (uint64, error) {
	return s.set(dir, given, want, onlyEmpty)
}

// set is Set. It calls first for a directory that has no quota yet.
func (s squota) set(dir int, given uint64, want Limit, first func(dir int) error) (uint64, error) {
	if err := want.check(s.Support()); err != nil {
		return 0, err
	}
	id, err := idOf(dir)
	if err == nil && given != 0 {
		err = same(id, given)
	}
	if err != nil {
		return 0, err
	}
	groups, reason, err := squotaState(dir)
	if err != nil || reason != "" {
		return 0, errors.Join(fmt.Errorf("%w: its squota was turned off", ErrNone), err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(dir, &st); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	want.Bytes = roundUp(want.Bytes, st.Bsize)
	now, err := groupUsage(groups, id)
	if errors.Is(err, ErrUnlimited) {
		err = first(dir)
	}
	if err != nil {
		return 0, err
	}
	if err := want.allowed(now); err != nil {
		return 0, err
	}
	return id, s.enforce(dir, id, want.Bytes, now.Limit.Bytes)
}

// enforce adds the subvolume to its qgroup, and sets the quota.
func (s squota) enforce(dir int, id uint64, want, now int64) error {
	// Not through the volume's own descriptor: the kernel reserves space for the change in the
	// subvolume of the descriptor, which fails if the volume is full.
	above, err := unix.Openat(dir, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the directory above: %w", err)
	}
	defer unix.Close(above)
	s.step("group")
	if err := createGroup(above, groupLevel|id); err != nil && err != unix.EEXIST {
		return fmt.Errorf("create the qgroup 1/%d: %w", id, err)
	}
	// The subvolume may not be in an existing qgroup: after a restart the kernel gives the ID of a
	// removed subvolume to a new one, and the old qgroup may still exist.
	s.step("join")
	if err := assignGroup(above, id-firstID, groupLevel|id); err != nil && err != unix.EEXIST {
		return fmt.Errorf("add the subvolume %d to the qgroup 1/%d: %w", id-firstID, id, err)
	}
	if want == now {
		return nil
	}
	s.step("set")
	if err := limitGroup(above, groupLevel|id, want); err != nil {
		return fmt.Errorf("set the quota of the qgroup 1/%d: %w", id, err)
	}
	return nil
}

func (squota) Usage(dir int, given uint64) (Usage, error) {
	id, err := idOf(dir)
	if err != nil {
		return Usage{}, errors.Join(ErrUnlimited, err)
	}
	if given != 0 {
		if err := same(id, given); err != nil {
			return Usage{}, err
		}
	}
	groups, err := groupsDir(dir)
	if err != nil {
		return Usage{}, err
	}
	return groupUsage(groups, id)
}

// Remove destroys the subvolume; the kernel frees its space in the background. It does nothing and
// returns false if other subvolumes are in it.
func (s squota) Remove(parent int, name string) (bool, error) {
	s.step("remove")
	err := subvolume(parent, btrfsSnapDestroy, name)
	switch err {
	case nil, unix.ENOENT:
		return true, nil
	// Not a subvolume, not a directory, or not empty of subvolumes.
	case unix.EINVAL, unix.ENOTDIR, unix.ENOTEMPTY:
		return false, nil
	}
	return false, err
}

// idOf returns the ID of the volume with the root directory dir.
func idOf(dir int) (uint64, error) {
	subvolume, ok, err := subvolumeOf(dir)
	if err != nil {
		return 0, fmt.Errorf("find the subvolume: %w", err)
	}
	if !ok {
		return 0, fmt.Errorf("%w: it is not a subvolume", ErrForeign)
	}
	if subvolume > lastID-firstID {
		return 0, fmt.Errorf("%w: the subvolume %d is beyond the agent's range of IDs", ErrForeign, subvolume)
	}
	return firstID + subvolume, nil
}

// groupUsage returns what the kernel counts for a qgroup, with the space that is reserved for
// unwritten data: the kernel counts that too.
func groupUsage(groups string, id uint64) (u Usage, err error) {
	dir := filepath.Join(groups, fmt.Sprintf("1_%d", id))
	for _, name := range []string{"referenced", "rsv_data"} {
		n, err := sysfsNumber(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			return Usage{}, ErrUnlimited
		}
		if err != nil {
			return Usage{}, fmt.Errorf("read the usage of the qgroup 1/%d: %w", id, err)
		}
		u.Bytes += n
		if name == "rsv_data" {
			u.Unwritten = n
		}
	}
	flags, err := sysfsNumber(dir, "limit_flags")
	if err == nil && flags&limitReferenced == 0 {
		return u, ErrUnlimited
	}
	most, err2 := sysfsNumber(dir, "max_referenced")
	u.Limit.Bytes = most
	return u, errors.Join(err, err2)
}

// squotaState returns the directory of the filesystem's qgroups in sysfs. If the filesystem has no
// squota, it also returns the reason.
func squotaState(dir int) (groups, reason string, err error) {
	groups, err = groupsDir(dir)
	if err != nil {
		return "", "", err
	}
	mode, err := os.ReadFile(filepath.Join(groups, "mode"))
	switch {
	case err == nil && strings.TrimSpace(string(mode)) == "squota":
		return groups, "", nil
	case err == nil:
		return groups, "btrfs has full quota, which does not limit subvolumes that a tenant creates; " +
			"run btrfs quota disable, and start the agent with --enable-btrfs-quota", nil
	case !errors.Is(err, fs.ErrNotExist):
		return groups, "", err
	}
	if _, err := os.Stat(btrfsSysfs + "/features/simple_quota"); err != nil {
		return groups, "the kernel is too old for btrfs' simple quota (squota), which came with Linux 6.7", nil
	}
	return groups, "btrfs without simple quota (squota); start the agent with --enable-btrfs-quota, or run btrfs " +
		"quota enable --simple of btrfs-progs 6.7 or later", nil
}

// Enable turns on simple quota on the btrfs of dir. It does nothing if that is on.
//
// It changes the filesystem for good: kernels before Linux 6.7 do not mount it for writing any
// more. The kernel does not count data that exists already.
func Enable(dir int) error {
	e, err := Probe(dir, Hooks{})
	if err != nil {
		return err
	}
	s := e.Support()
	if s.Method == MethodBtrfs {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(dir, &st); err != nil {
		return fmt.Errorf("statfs: %w", err)
	}
	if st.Type != unix.BTRFS_SUPER_MAGIC {
		return fmt.Errorf("%w: only btrfs can turn on quotas while it is mounted; %s", ErrInvalid, s.Reason)
	}
	groups, reason, err := squotaState(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(groups); err == nil {
		return fmt.Errorf("%w: %s", ErrInvalid, reason)
	}
	if err := enableSquota(dir); err != nil {
		return fmt.Errorf("enable simple quota: %w: %s", err, reason)
	}
	return nil
}
