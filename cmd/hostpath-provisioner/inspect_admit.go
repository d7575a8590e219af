package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// admitWithin is how long an inspect waits for another one to end.
const admitWithin = 5 * time.Second

// admit waits until no other inspect of the agent runs, and returns the function that lets the next
// one in. It returns an error after the wait. The agent is the process first, if it runs the program
// self: an inspect elsewhere, such as on a host, is always admitted.
//
// A kubelet does not end the inspect of a user who left. Without this, each attempt on a slow disk
// would take more of the memory and the processes of the agent's container. The lock is one of
// flock(2) on the program's file, which needs no directory that can be written; each container has
// an inode of its own for it. Other users of a host could hold it, so it counts in containers alone.
func admit(first, self string, within time.Duration) (release func(), err error) {
	release = func() {}
	program, err := os.Stat(self)
	if err != nil {
		return release, nil
	}
	if agent, err := os.Stat(first); err != nil || !os.SameFile(agent, program) {
		return release, nil
	}
	f, err := os.Open(self)
	if err != nil {
		return release, nil
	}
	for deadline := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			// A thread that waits for a disk keeps files open after the end of the program.
			return func() { _ = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close()) }, nil
		case errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(deadline), errors.Is(err, unix.EINTR):
			continue
		}
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return release, fmt.Errorf(
				"another inspect of this agent runs, and has not ended within %s: try again later; if that "+
					"stays so, a disk does not answer, and the agent's log has which",
				within,
			)
		}
		return release, nil // a filesystem without locks
	}
}
