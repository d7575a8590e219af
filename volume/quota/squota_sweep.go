package quota

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Sweep removes the qgroups whose subvolume is gone. The kernel refuses until their space is free.
//
// The kernel removes the qgroup of level 0 itself as it drops the subvolume, unless files elsewhere
// still have blocks of it (btrfs_qgroup_cleanup_dropped_subvolume in fs/btrfs/qgroup.c). Then that
// qgroup stays for ever, and with it the one of level 1 above it: Sweep removes both once they count
// nothing.
func (s squota) Sweep(dir int) (cleared int, err error) {
	groups, err := groupsDir(dir)
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(groups)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // quotas were turned off, and all qgroups went with them
	}
	if err != nil {
		return 0, fmt.Errorf("list the qgroups: %w", err)
	}
	var errs []error
	swept := false
	for _, e := range entries {
		id, ok := groupID(e.Name())
		if !ok {
			continue
		}
		removed, err := s.clear(dir, id-firstID, groupLevel|id)
		if !removed && err == nil && !swept && countsNothing(groups, e.Name()) {
			swept = true // for all of them
			if err = s.sweepMembers(dir, groups, entries); err == nil {
				removed, err = s.clear(dir, id-firstID, groupLevel|id)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove the qgroup 1/%d, which is empty: %w", id, err))
		} else if removed {
			cleared++
		}
	}
	return cleared, errors.Join(errs...)
}

// clear removes a qgroup if its subvolume is gone, and reports whether it did. The kernel refuses if the
// qgroup counts something, or has others below it.
func (s squota) clear(dir int, subvolume, group uint64) (removed bool, err error) {
	if there, err := subvolumeExists(dir, subvolume); there || err != nil {
		return false, err
	}
	s.step("clear")
	switch err := removeGroup(dir, group); {
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// sweepMembers removes the qgroups of level 0 that count nothing, and whose subvolume is gone: those of
// volumes, and of subvolumes that tenants made in them. It is no one's any more, and the kernel removes
// all others itself.
func (s squota) sweepMembers(dir int, groups string, entries []os.DirEntry) error {
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "0_")
		id, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil || id < firstSubvolume || !countsNothing(groups, e.Name()) {
			continue
		}
		if _, err := s.clear(dir, id, id); err != nil {
			return fmt.Errorf("remove the qgroup 0/%d: %w", id, err)
		}
	}
	return nil
}

// firstSubvolume is the least ID of a subvolume (BTRFS_FIRST_FREE_OBJECTID).
const firstSubvolume = 256

// countsNothing reports whether sysfs shows that a qgroup has no data, written or not.
func countsNothing(groups, name string) bool {
	for _, count := range []string{"referenced", "rsv_data"} {
		if n, err := sysfsNumber(filepath.Join(groups, name), count); n != 0 || err != nil {
			return false
		}
	}
	return true
}

// groupID returns the ID in the name that sysfs has for a qgroup of the agent.
func groupID(name string) (id uint64, ok bool) {
	number, ok := strings.CutPrefix(name, "1_")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, false
	}
	return id, id > firstID && id <= lastID
}
