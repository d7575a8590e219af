package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// MemoryGroup is a cgroup with the memory limit that manifests/legacy gives to an agent.
type MemoryGroup struct {
	// Limit is in bytes.
	Limit int64
	// Program starts the agent within the group; see Options.Program.
	Program string

	dir  string
	peak string // the file that has the most that was used
}

// MemoryGroup makes a cgroup, of version 1 or 2, until the test ends.
func (s *Scene) MemoryGroup() *MemoryGroup {
	s.Helper()
	g := &MemoryGroup{Limit: s.agentMemory(), Program: s.Path("programs", "limited-agent")}
	limit := "memory.max"
	g.dir, g.peak = "/sys/fs/cgroup", "memory.peak"
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil { // version 1
		g.dir, g.peak, limit = "/sys/fs/cgroup/memory", "memory.max_usage_in_bytes", "memory.limit_in_bytes"
	} else {
		s.must("enable memory limits", os.WriteFile(filepath.Join(g.dir, "cgroup.subtree_control"), []byte("+memory"), 0o644))
	}
	g.dir = filepath.Join(g.dir, fmt.Sprintf("hpp-%s-%d", strings.ReplaceAll(s.Name, "/", "-"), os.Getpid()))
	s.must("make cgroup", os.Mkdir(g.dir, 0o755))
	s.Cleanup(func() {
		var err error
		for range 50 { // the group is busy until the kernel has let the process go
			if err = os.Remove(g.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		s.Errorf("remove cgroup: %v", err)
	})
	s.must("limit memory", os.WriteFile(filepath.Join(g.dir, limit), []byte(strconv.FormatInt(g.Limit, 10)), 0o644))
	script := fmt.Sprintf("#!/bin/sh\necho $$ >%s/cgroup.procs\nexec %s \"$@\"\n", g.dir, s.Env.Agent)
	s.must("write script", os.WriteFile(g.Program, []byte(script), 0o755))
	return g
}

// Peak returns the most bytes that the group has used. That includes pages of files, such as those
// of the program.
func (g *MemoryGroup) Peak() (int64, error) {
	data, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// agentMemory returns the memory limit of the agent's container.
func (s *Scene) agentMemory() int64 {
	s.Helper()
	dir, err := root()
	s.must("find manifests", err)
	data, err := os.ReadFile(filepath.Join(dir, "manifests", "legacy", "daemonset.yaml"))
	s.must("read manifest", err)
	var ds appsv1.DaemonSet
	s.must("read manifest", yaml.Unmarshal(data, &ds))
	return ds.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
}
