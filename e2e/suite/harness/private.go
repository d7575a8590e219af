// Package harness runs node agents against a real control plane, as processes of this machine, and asks them, the
// cluster and the disk what became of a claim. It knows the agent by its program, its flags and its sockets alone.
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

// privateMark tells the second start of a test program from the first.
const privateMark = "HPP_E2E_PRIVATE"

// Privately starts this program once more, in a mount namespace of its own, and returns its exit code and true. In that
// second program it returns false, and the tests go on. What they mount is seen by nobody else and goes with them,
// however they end. An interrupt or SIGTERM is the second program's to act upon; the first waits for it.
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
