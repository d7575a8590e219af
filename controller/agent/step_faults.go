//go:build faults

package agent

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// step kills the process right before its n-th change to a disk, n being
// HPP_KILL_AT, or before the first change of the name that stands there. Built
// into test agents only, by the tag faults.
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
