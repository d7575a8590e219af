//go:build faults

package agent

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// step logs each change to a disk, and kills the process before the n-th one, or before the first
// of a name. HPP_KILL_AT is that number or name; without it, step does nothing. Only test agents,
// built with the tag faults, have it.
var step = killAt(os.Getenv("HPP_KILL_AT"))

func killAt(value string) func(string) {
	if value == "" {
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	var count atomic.Int64
	return func(name string) {
		if err == nil && count.Add(1) == n || name == value {
			fmt.Fprintf(os.Stderr, "killed before step %s\n", name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing more may happen
		}
		fmt.Fprintf(os.Stderr, "step %s\n", name)
	}
}
