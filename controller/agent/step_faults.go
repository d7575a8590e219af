//go:build faults

package agent

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// step kills the process before its n-th change to a disk, or before the first change of a name.
// HPP_KILL_AT is that number or name. Only test agents, built with the tag faults, have it.
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
	}
}
