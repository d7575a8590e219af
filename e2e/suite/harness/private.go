// Package harness runs agents as processes of this machine against a real control plane, and checks
// the agents, the cluster and the disk. It uses the agent's program, flags and sockets only.
package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// privateMark marks the second start of a test program.
const privateMark = "HPP_E2E_PRIVATE"

// Privately starts this program once more, in its own mount namespace, and returns its exit code
// and true. In that second program it returns false, and the tests run. Their mounts are visible to
// no other process and disappear with the program. The first program forwards interrupts and
// SIGTERM, and waits.
func Privately() (code int, done bool) {
	if os.Getenv(privateMark) != "" {
		return 0, false
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests mount disks and run the agent as it runs in a cluster: they need root")
		return 1, true
	}
	runtime.LockOSThread() // the death signal below follows the thread, not the process
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), privateMark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	err := cmd.Start()
	if err == nil {
		go func() {
			for s := range signals {
				_ = cmd.Process.Signal(s) // of a terminal's interrupt it is the second; that is harmless
			}
		}()
		err = cmd.Wait()
	}
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &failed) && failed.ExitCode() > 0:
		return failed.ExitCode(), true
	}
	fmt.Fprintf(os.Stderr, "run the tests in a mount namespace of their own: %v\n", err)
	return 1, true
}
