package mount

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Busy describes the processes and the mounts that keep a mount from being unmounted, as far as
// this process sees them: a process of another PID namespace is not visible. Copies of the mount in
// other mount namespaces count, because an unmount propagates to them; see umount(2), EBUSY.
func Busy(i Info) (users []string) {
	if all, err := Self(); err == nil {
		for _, on := range all {
			if on.Parent == i.ID {
				users = append(users, "mount "+on.Point)
			}
		}
	}
	copies := i.copies()
	pids, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, pid := range pids {
		if usesAny(pid, copies) {
			name, _ := os.ReadFile(pid + "/comm") // the process may have ended
			users = append(users, fmt.Sprintf("process %s (%s)", filepath.Base(pid), strings.TrimSpace(string(name))))
		}
	}
	slices.Sort(users)
	return users
}

// copies returns the mount's IDs in all visible mount namespaces. IDs are unique in the system.
func (i Info) copies() map[int]bool {
	ids, seen := map[int]bool{i.ID: true}, map[string]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, p := range processes {
		namespace, err := os.Readlink(p + "/ns/mnt")
		if err != nil || seen[namespace] {
			continue
		}
		seen[namespace] = true
		maps.Copy(ids, i.copiesIn(p+"/mountinfo"))
	}
	return ids
}

// copiesIn returns those of one namespace: the mounts that an unmount propagates to.
func (i Info) copiesIn(mountinfo string) map[int]bool {
	ids := map[int]bool{}
	f, err := os.Open(mountinfo)
	if err != nil {
		return ids
	}
	defer f.Close()
	all, _ := Parse(f) // those before a line that cannot be parsed
	for _, other := range all {
		if i.Peers != 0 && (other.Peers == i.Peers || other.Master == i.Peers) {
			ids[other.ID] = true
		}
	}
	return ids
}

// usesAny reports whether a process has a file open through one of the mounts, or its working or
// root directory there. It opens no file of the filesystem, which may not respond.
func usesAny(process string, ids map[int]bool) bool {
	open, _ := filepath.Glob(process + "/fdinfo/*") // the pattern is well-formed
	for _, fd := range open {
		if id, err := mountIDIn(fd); err == nil && ids[id] {
			return true
		}
	}
	for _, link := range []string{"/cwd", "/root"} {
		fd, err := unix.Open(process+link, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		id, err := mountID(fd)
		unix.Close(fd)
		if err == nil && ids[id] {
			return true
		}
	}
	return false
}
