package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroupName is the group of all processes on the nodes: per node one group for containerd with its
// shims, and the pods'.
const cgroupName = "hpp-e2e"

func nodeCgroup(node string) string    { return filepath.Join("/", cgroupName, node) }
func runtimeCgroup(node string) string { return filepath.Join(nodeCgroup(node), "runtime") }

// hierarchy is one mounted cgroup tree: the only one with version 2, one per controller with
// version 1.
type hierarchy struct {
	path    string
	version int
	cpuset  bool
}

// parseHierarchies reads the cgroup trees from the text of /proc/mounts.
func parseHierarchies(mounts string) []hierarchy {
	var list []hierarchy
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch fields[2] {
		case "cgroup":
			list = append(list, hierarchy{fields[1], 1, slices.Contains(strings.Split(fields[3], ","), "cpuset")})
		case "cgroup2":
			list = append(list, hierarchy{fields[1], 2, false})
		}
	}
	return list
}

func hierarchies() []hierarchy {
	data, _ := os.ReadFile("/proc/mounts")
	return parseHierarchies(string(data))
}

// makeCgroup creates a group with its parents in every hierarchy, and makes it accept processes.
func makeCgroup(name string) error {
	for _, h := range hierarchies() {
		dir := h.path
		for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := h.makeChild(parent, dir); err != nil {
				return fmt.Errorf("create control group %s: %w", dir, err)
			}
		}
	}
	return nil
}

func (h hierarchy) makeChild(parent, dir string) error {
	if h.version == 2 {
		// A child has only the controllers that its parent delegates. A controller that is missing
		// is no error.
		data, _ := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
		for controller := range strings.FieldsSeq(string(data)) {
			_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !h.cpuset {
		return nil
	}
	// An empty cpuset of version 1 takes no process.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// enterCgroup moves a process, and the processes that it will start, into a group.
func enterCgroup(name string, pid int) error {
	for _, h := range hierarchies() {
		file := filepath.Join(h.path, name, "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("move process %d: %w", pid, err)
		}
	}
	return nil
}

// killCgroup kills every process of a group and of the groups below: containers, which are not
// recorded, and their shims. A group that does not exist is no error.
func killCgroup(name string) error {
	end := time.Now().Add(time.Minute)
	for {
		var alive []int
		for _, h := range hierarchies() {
			alive = append(alive, groupProcesses(filepath.Join(h.path, name))...)
		}
		if len(alive) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("control group %s: processes %v do not end; see what they wait for in /proc/PID/stack", name,
				alive)
		}
		for _, pid := range alive {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// groupProcesses lists the processes in the group at dir and below.
func groupProcesses(dir string) []int {
	var pids []int
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // a group that disappears during the walk has no process
		}
		data, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// removeCgroup removes an empty group and the groups below from every hierarchy.
func removeCgroup(name string) error {
	var errs []error
	for _, h := range hierarchies() {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(h.path, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			errs = append(errs, rmdirPatiently(dir))
		}
	}
	return errors.Join(errs...)
}

// rmdirPatiently retries for a moment: a group stays busy until the kernel has removed its last
// process.
func rmdirPatiently(dir string) error {
	var err error
	for range 100 {
		err = syscall.Rmdir(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("remove control group %s: %w", dir, err)
}
