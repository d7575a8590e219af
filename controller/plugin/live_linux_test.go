package plugin_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kubevirt.io/hostpath-provisioner/controller/plugin"
)

// terminal returns the two ends of a pseudoterminal of that many lines and columns.
func terminal(t *testing.T, lines, columns uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return user, program
}

// On a terminal top draws on the alternate screen, again and again, and the terminal is as before
// once the user interrupts it.
func TestTopOnATerminal(t *testing.T) {
	kubeconfig := partly().Start(t)
	user, program := terminal(t, 8, 60)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	ctx, interrupt := context.WithTimeout(t.Context(), 2*time.Minute)
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		c := plugin.Command("v1", genericiooptions.IOStreams{In: program, Out: program, ErrOut: program})
		c.SetArgs([]string{"top", "--kubeconfig", kubeconfig, "--timeout", "5m"})
		ended <- c.ExecuteContext(ctx)
		_ = program.Close()
	}()
	seen, buffer := "", make([]byte, 64<<10)
	for {
		n, err := user.Read(buffer)
		seen += string(buffer[:n])
		if strings.Count(seen, "\x1b[H") >= 2 && ctx.Err() == nil {
			interrupt()
		}
		if err != nil { // the program has closed its end
			break
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("top ends with %v", err)
	}
	if !strings.HasPrefix(seen, "\x1b[?1049h\x1b[?25l") || !strings.HasSuffix(seen, "\x1b[?25h\x1b[?1049l") {
		t.Errorf("the alternate screen is not entered and left:\n%q", seen)
	}
	first, _, _ := strings.Cut(seen, "\x1b[J")
	if lines := strings.Count(first, "\n"); lines > 7 || !strings.Contains(first, "node-02") {
		t.Errorf("%d lines on a terminal of 8:\n%q", lines, first)
	}
}
