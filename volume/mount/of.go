package mount

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Of returns the mount of path as this process sees it (statx(2), STATX_MNT_ID, since Linux 5.8).
func Of(path string) (Info, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st); err != nil {
		return Info{}, fmt.Errorf("statx %s: %w", path, err)
	}
	info, ok, err := Find(int(st.Mnt_id))
	if ok || err != nil {
		return info, err
	}
	return Info{}, fmt.Errorf("mount %d of %s is not in /proc/self/mountinfo", st.Mnt_id, path)
}

// On reports whether the mount with one ID is on that with another, maybe with mounts between them.
func On(all []Info, id, below int) bool {
	for range all {
		i, ok := ByID(all, id)
		if !ok || i.Parent == id {
			return false
		}
		if id = i.Parent; id == below {
			return true
		}
	}
	return false
}

// SameFilesystem reports whether two paths are on one filesystem, through any mounts.
func SameFilesystem(a, b string) (bool, error) {
	x, err := Of(a)
	if err != nil {
		return false, err
	}
	y, err := Of(b)
	return err == nil && x.sameFilesystem(y), err
}

// mountID returns the ID of the mount through which the descriptor fd was opened. It reads /proc,
// which has the ID for O_PATH descriptors too and does not call the filesystem; see
// proc_pid_fdinfo(5).
func mountID(fd int) (int, error) { return mountIDIn("/proc/self/fdinfo/" + strconv.Itoa(fd)) }

func mountIDIn(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("%s has no line mnt_id: %q", path, data)
}
