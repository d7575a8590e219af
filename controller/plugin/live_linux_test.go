package plugin_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

// On a terminal no line of explain and doctor is wider than it, and marks have a color unless NO_COLOR or
// a dumb terminal forbids it. explain has the words that it has in a pipe.
func TestOnATerminal(t *testing.T) {
	c, ansi := partly(), regexp.MustCompile("\x1b\\[[0-9;]*m")
	c.Event("PersistentVolumeClaim", "new", "ProvisioningFailed", "a name\x1b[31m, and many more words that no terminal of seventy columns has the room for")
	kubeconfig := c.Start(t)
	_, piped, _ := call(t.Context(), "explain", "new", "--kubeconfig", kubeconfig)
	for _, row := range []struct{ command, term, noColor, want string }{
		{"explain new", "xterm", "", "  \x1b[31m✗\x1b[0m node node-01 cannot hold the volume: it has no pool local; it has\n    fast, slow\n    → use"},
		{"explain new", "xterm", "1", "  ✗ node node-01"}, {"explain new", "dumb", "", "  ✗ node node-01"},
		{"doctor", "xterm", "", "\x1b[31mcritical\x1b[0m \x1b[1magents\x1b[0m: node node-03\n    the node is not ready, so its volumes cannot be reached\n    → kubectl describe node node-03 (docs/"},
	} {
		t.Setenv("TERM", row.term)
		t.Setenv("NO_COLOR", row.noColor)
		user, program := terminal(t, 40, 70)
		go func() {
			c := plugin.Command("v1", genericiooptions.IOStreams{In: program, Out: program, ErrOut: program})
			c.SetArgs(append(strings.Fields(row.command), "--kubeconfig", kubeconfig))
			_ = c.ExecuteContext(t.Context()) // its code says what it found
			_ = program.Close()
		}()
		out, _ := io.ReadAll(user) // until the program closes its end
		got := strings.ReplaceAll(string(out), "\r\n", "\n")
		plain := ansi.ReplaceAllString(got, "")
		if !strings.Contains(got, row.want) || (plain == got) != (row.noColor != "" || row.term == "dumb") || strings.Contains(plain, "\x1b") {
			t.Errorf("%+v:\n%q", row, got)
		}
		if row.command != "doctor" && !slices.Equal(strings.Fields(withoutTimes(plain)), strings.Fields(withoutTimes(piped))) {
			t.Errorf("%+v: other words than in a pipe:\n%s\n%s", row, plain, piped)
		}
		for line := range strings.Lines(plain) {
			if paragraph := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "  ✗"); paragraph && utf8.RuneCountInString(line) > 71 {
				t.Errorf("%+v: a line of %d characters: %s", row, utf8.RuneCountInString(line), line)
			}
		}
	}
}

// Ctrl-C ends the question of a command that writes, and nothing is written.
func TestInterruptedQuestion(t *testing.T) {
	s := undeleting()
	kubeconfig := s.Start(t)
	user, program := terminal(t, 24, 80)
	ctx, interrupt := context.WithTimeout(t.Context(), 2*time.Minute)
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		c := plugin.Command("v1", genericiooptions.IOStreams{In: program, Out: program, ErrOut: program})
		c.SetArgs([]string{"undelete", "orders", "-n", "shop", "--kubeconfig", kubeconfig})
		ended <- c.ExecuteContext(ctx)
	}()
	seen, buffer := "", make([]byte, 4096)
	for !strings.Contains(seen, "[y/N]") && ctx.Err() == nil {
		n, err := user.Read(buffer)
		if seen += string(buffer[:n]); err != nil {
			t.Fatalf("%v: %s", err, seen)
		}
	}
	interrupt()
	select {
	case err := <-ended:
		if plugin.ExitCode(err) != 1 || !strings.Contains(err.Error(), "nothing was written") || len(s.wrote()) != 0 {
			t.Errorf("%v, ran %q", err, s.wrote())
		}
	case <-time.After(time.Minute):
		t.Error("it still waits for an answer")
	}
}
